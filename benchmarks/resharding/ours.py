"""mpiparallel: each executor, with and without checksums, and the whole call."""

from __future__ import annotations

from functools import partial

from resharding.work import Arrays, Unsuited, Work

from mpiparallel.communication import init, world
from mpiparallel.reshard import ReshardOptions, memory, reshard
from mpiparallel.reshard.bound_plan import bind
from mpiparallel.reshard.checksums import Checksummer
from mpiparallel.reshard.executors.choice import ExecutorChoice
from mpiparallel.reshard.executors.executor import EXECUTORS, executors_for
from mpiparallel.reshard.executors.traffic_shape import agree_on_shape
from mpiparallel.reshard.verification import verify


class Executor:
    """A plan bound to arrays that were made before; each run fills them."""

    def __init__(self, work: Work, name: str, checked: bool) -> None:
        init()
        communicator = world.current()
        if name not in ("auto", *executors_for(communicator)):
            raise Unsuited("ranks that see each other's memory are needed")
        options = ReshardOptions(executor=name)
        targets = {tensor: pair[1] for tensor, pair in work.layouts.items()}
        dtypes = {tensor: work.dtype for tensor in targets}
        piece_bytes = bind(work.plan, work.layouts, work.sources, work.new_arrays(1), communicator).piece_bytes
        shape = agree_on_shape(piece_bytes, communicator, options.scratch_bytes)
        chosen = ExecutorChoice(name, communicator).choose(shape)
        if chosen == "shared":
            made = memory.shared_targets(targets, dtypes, work.plan.kept, communicator)
        else:
            made = memory.private_targets(targets, dtypes, work.rank)
        made.arrays.update({tensor: work.sources[tensor] for tensor in work.plan.kept})
        for tensor in made.arrays.keys() - set(work.plan.kept):
            made.arrays[tensor].fill(float("nan"))
        bound = bind(work.plan, work.layouts, work.sources, made.arrays, communicator)
        checksummer = Checksummer(options.scratch_bytes) if checked else None
        self._executor = EXECUTORS[chosen](bound, communicator, shape, made, checksummer)
        self._executor.connect()
        self._targets, self._communicator, self._checked = made.arrays, communicator, checked
        self.note = chosen

    def run(self) -> None:
        found = self._executor.run()
        if self._checked:
            verify(found, self._communicator)

    def results(self) -> Arrays:
        return self._targets

    def close(self) -> None:
        self._executor.free()


class WholeCall:
    """``reshard(...)`` with its defaults: agreement, plan, new arrays, move, checksums."""

    def __init__(self, work: Work) -> None:
        init()
        self._work = work
        self._source = {tensor: pair[0] for tensor, pair in work.layouts.items()}
        self._target = {tensor: pair[1] for tensor, pair in work.layouts.items()}
        self._moved: Arrays = {}

    def reset(self) -> None:
        self._moved = {}

    def run(self) -> None:
        self._moved = reshard(self._work.sources, self._source, self._target, world.current())

    def results(self) -> Arrays:
        return self._moved


packed = partial(Executor, name="packed", checked=True)
packed_unchecked = partial(Executor, name="packed", checked=False)
datatypes = partial(Executor, name="datatypes", checked=True)
datatypes_unchecked = partial(Executor, name="datatypes", checked=False)
shared = partial(Executor, name="shared", checked=True)
shared_unchecked = partial(Executor, name="shared", checked=False)
chosen = partial(Executor, name="auto", checked=True)
chosen_unchecked = partial(Executor, name="auto", checked=False)
