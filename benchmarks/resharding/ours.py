"""mpiparallel: each executor, with and without checksums, and the whole call."""

from __future__ import annotations

from functools import partial

from resharding.work import Arrays, Work

from mpiparallel.communication import init, world
from mpiparallel.reshard.live import Exchange


class Executor:
    """A plan bound to arrays, run many times."""

    def __init__(self, work: Work, verify: bool) -> None:
        init()
        self._targets = work.new_arrays(1)
        self._targets.update({name: work.sources[name] for name in work.plan.kept})
        self._exchange = Exchange(
            work.plan, work.layouts, work.sources, self._targets, world.current(), range(work.ranks), verify
        )

    def run(self) -> None:
        self._exchange.run()

    def results(self) -> Arrays:
        return self._targets


packed = partial(Executor, verify=True)
packed_unchecked = partial(Executor, verify=False)
