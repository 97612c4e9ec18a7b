"""Windows of bounded size: pack, exchange, unpack; what is contiguous is neither packed nor unpacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard import memory
from mpiparallel.reshard.bound_plan import BoundPlan
from mpiparallel.reshard.checksums import Checksummer
from mpiparallel.reshard.executors.rounds import Bytes, Round, Rounds
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.pieces import aligned
from mpiparallel.reshard.verification import Checked


def _allocate(count: int) -> Bytes:
    return memory.allocate((count,), np.dtype(np.uint8))


class PackedExecutor:
    """Sends every stream in windows, the same share of each stream in each round.

    So no rank packs more than half of the scratch memory at a time, nor receives more into the other half. That holds
    however uneven the streams are. One share of everything at once where that fits. Where all ranks talk to most others
    in small messages, one Alltoallv carries them. Else messages go from point to point, only between ranks that have
    some.
    """

    NAME: Final = "packed"

    def __init__(
        self, bound: BoundPlan, communicator: Communicator, shape: TrafficShape, checksummer: Checksummer | None = None
    ) -> None:
        self._bound = bound
        self._communicator = communicator
        self._checksummer = checksummer
        self._together = shape.suits_all_to_all
        self._rounds = Rounds(bound, shape.share, _allocate, all_of_it=self._together)

    def connect(self) -> None:
        """Agree on the number of rounds; all ranks call it together."""
        self._rounds.agree(self._communicator)

    def run(self) -> Checked:
        """Fill the targets from the sources; all ranks call it together."""
        checked = Checked(tensors=self._rounds.tensors)
        self._bound.copy_own()
        for step in self._rounds.steps:
            for window, piece in step.packing:
                np.copyto(window, piece, casting="no")
            self._note(checked.sent, step.sends)
            self._exchange(step)
            self._note(checked.arrived, step.receives)
            for piece, window in step.unpacking:
                np.copyto(piece, window, casting="no")
        return checked

    def _note(self, checksums: dict[int, list[int]], window: Mapping[int, Bytes]) -> None:
        """Add the checksum of the window of each stream, while the processor has it in its cache."""
        if self._checksummer:
            for member, content in window.items():
                checksums.setdefault(member, []).append(self._checksummer.of([content]))

    def _exchange(self, step: Round) -> None:
        if not self._together:
            self._communicator.exchange(step.sends, step.receives)
            return
        counts = [
            [aligned(len(side[member])) if member in side else 0 for member in range(self._communicator.size)]
            for side in (step.sends, step.receives)
        ]
        self._communicator.all_to_all_v(self._rounds.sent, counts[0], self._rounds.received, counts[1])

    def free(self) -> None:
        """Give back the windows."""
        self._rounds.forget()
