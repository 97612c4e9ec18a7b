"""Collectives in graphs: NCCL wants each of them in a graph on all its ranks, or on none, so the ranks agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.transport.in_flight import GraphCall
from mpiparallel.compatibility.remark import remark
from mpiparallel.graph.execution.stretch import Stretch


class AgreedGraphs:
    """The stretches of a program that all ranks run together, so often as all others do.

    They agree after the second run of the program, the fourth, the eighth and so on. A stretch under a guard may run
    late, and so be recorded late. Until then its steps are given one by one.
    """

    def __init__(self, communicator: Communicator | None, stretches: Sequence[Stretch]) -> None:
        self._communicator = communicator
        self._stretches = stretches
        self._runs = 0

    def count_run(self) -> None:
        """Note that a run has ended; all ranks of the program call it together."""
        if self._communicator is None:
            return
        self._runs += 1
        if self._runs > 1 and self._runs & (self._runs - 1) == 0:
            self._agree(self._communicator)

    def _agree(self, everyone: Communicator) -> None:
        """Let graphs with collectives take the place of their steps, on all ranks or on none."""
        proposed = [one for one in self._stretches if one.proposes]
        calls = [call for one in proposed for call in one.proposed_calls]
        differs = False
        for group in self._groups():
            differs |= _differs(group, [call for call in calls if call.ranks == tuple(group.ranks)])
        if everyone.any_true(differs):
            # Who could record none of them replays what it has: its calls are given one by one, as all will be.
            remark("a step is not one CUDA graph, for not all ranks can record the same collectives")
            for one in proposed:
                one.give_up()
        else:
            for one in proposed:
                one.take()

    def _groups(self) -> Iterable[Communicator]:
        """Return all groups whose calls may be in graphs, in the order in which all their members bind them."""
        return {tuple(one.ranks): one for each in self._stretches for one in each.groups}.values()


def _differs(group: Communicator, calls: Sequence[GraphCall]) -> bool:
    """Return whether a member of a group has recorded other calls of it; all members call it together."""
    told = repr([call.words for call in calls]).encode()
    code = int.from_bytes(blake2b(told, digest_size=7).digest(), "little")
    words = np.array([code, -code], np.int64)
    group.all_reduce(words, "max")
    return bool(words[0] != code or words[1] != -code)
