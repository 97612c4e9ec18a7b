"""What the ranks must know of each other's traffic to carry out a plan alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mpiparallel.communication.protocol import Communicator
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.pieces import ALIGNMENT, aligned

PieceBytes = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]

_SMALL_MESSAGE: Final = 64 << 10


@dataclass(frozen=True)
class TrafficShape:
    """The traffic of all ranks in four numbers, the same on every rank.

    ``share`` of each stream fits into the scratch memory of every rank at a time. ``largest_stream`` and
    ``mean_piece`` are in bytes, the latter over the pieces of the rank where it is largest. ``dense`` tells
    whether every rank has messages for most of the others.
    """

    share: float
    largest_stream: int
    mean_piece: int
    dense: bool

    @property
    def suits_all_to_all(self) -> bool:
        """Whether one collective serves better than messages from point to point."""
        return self.share >= 1 and self.dense and self.largest_stream <= _SMALL_MESSAGE


def agree_on_shape(piece_bytes: PieceBytes, communicator: Communicator, scratch_bytes: int | None) -> TrafficShape:
    """Return the shape of the traffic; all ranks call it together. Without a limit everything moves at once.

    ``piece_bytes`` are the lengths of the pieces of each stream: of those that leave this rank, and that reach it.
    """
    lengths = [[sum(map(aligned, stream)) for stream in streams] for streams in piece_bytes]
    share = 1.0 if scratch_bytes is None else min(_share(side, scratch_bytes // 2) for side in lengths)
    pieces = sum(map(len, piece_bytes[0]))
    mean = sum(lengths[0]) // pieces if pieces else 0
    peers = min(len(side) for side in lengths)
    # One reduction for all: what is wanted as a maximum travels with its sign turned.
    agreed = np.array([share, peers * 2 >= communicator.size - 1, -max((*lengths[0], *lengths[1], 0)), -mean], float)
    communicator.all_reduce(agreed, "min")
    if agreed[0] <= 0:
        raise ReshardError(
            f"scratch_bytes {scratch_bytes} is not enough for a rank that exchanges with so many others; give at least "
            f"{4 * ALIGNMENT} bytes for each rank, better megabytes"
        )
    return TrafficShape(float(agreed[0]), int(-agreed[2]), int(-agreed[3]), bool(agreed[1]))


def _share(lengths: Sequence[int], room: int) -> float:
    """Return which share of each stream fits into ``room`` bytes at a time, when each is rounded to the alignment."""
    if sum(lengths) <= room:
        return 1.0
    return (room - ALIGNMENT * len(lengths)) / sum(lengths)
