"""Windows of bounded size: pack, exchange, unpack; what is contiguous is neither packed nor unpacked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard import memory
from mpiparallel.reshard.bound_plan import BoundPlan, Stream
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.pieces import ALIGNMENT, Piece, aligned, byte_view, messages, offsets

Bytes = NDArray[np.uint8]


class _Round(NamedTuple):
    """One window of each stream."""

    packing: list[tuple[Piece, Piece]]
    sends: dict[int, Bytes]
    receives: dict[int, Bytes]
    unpacking: list[tuple[Piece, Piece]]


class PackedExecutor:
    """Sends every stream in windows, the same share of each stream in each round.

    So no rank packs more than half of the scratch memory at a time, and receives no more into the other half, however
    uneven the streams are. One share of everything at once where that fits. Where all ranks talk to most others in
    small messages one Alltoallv carries them, else messages go from point to point, only between ranks that have some.
    """

    NAME: Final = "packed"

    def __init__(self, bound: BoundPlan, communicator: Communicator, shape: TrafficShape) -> None:
        self._bound = bound
        self._communicator = communicator
        self._alike = shape.suits_all_to_all
        self._rounds: list[_Round] = []
        if self._alike:
            self._prepare_all_to_all()
        else:
            self._prepare_rounds(shape.share)

    def connect(self) -> None:
        """Agree on the number of rounds; all ranks call it together."""
        rounds = np.array(0 if self._alike else len(self._rounds))
        self._communicator.all_reduce(rounds, "max")
        self._rounds += [_Round([], {}, {}, [])] * (int(rounds) - len(self._rounds))

    def run(self) -> None:
        """Fill the targets from the sources; all ranks call it together."""
        self._bound.copy_own()
        if self._alike:
            self._run_all_to_all()
            return
        for packing, sends, receives, unpacking in self._rounds:
            for window, piece in packing:
                np.copyto(window, piece, casting="no")
            self._communicator.exchange(sends, receives)
            for piece, window in unpacking:
                np.copyto(piece, window, casting="no")

    def free(self) -> None:
        """Give back the windows."""
        self._rounds = []

    def _prepare_rounds(self, share: float) -> None:
        outgoing = [list(_windows(stream, share)) for stream in self._bound.outgoing]
        incoming = [list(_windows(stream, share)) for stream in self._bound.incoming]
        sent, received = _Scratch(outgoing), _Scratch(incoming)
        to = [stream.member for stream in self._bound.outgoing]
        of = [stream.member for stream in self._bound.incoming]
        for given, taken in zip_longest(zip_longest(*outgoing), zip_longest(*incoming), fillvalue=()):
            packing, sends = sent.place(to, given)
            unpacking, receives = received.place(of, taken)
            unpacking = [(piece, window) for window, piece in unpacking]
            self._rounds.append(_Round(packing, dict(sends), dict(receives), unpacking))

    def _prepare_all_to_all(self) -> None:
        size = self._communicator.size
        self._sent, self._packing, self._sent_counts = _side_by_side(self._bound.outgoing, size)
        self._received, unpacking, self._received_counts = _side_by_side(self._bound.incoming, size)
        self._unpacking = [(piece, window) for window, piece in unpacking]

    def _run_all_to_all(self) -> None:
        for window, piece in self._packing:
            np.copyto(window, piece, casting="no")
        self._communicator.all_to_all_v(self._sent, self._sent_counts, self._received, self._received_counts)
        for piece, window in self._unpacking:
            np.copyto(piece, window, casting="no")


def _windows(stream: Stream, share: float) -> Iterator[list[Piece]]:
    length = sum(aligned(piece.nbytes) for piece in stream.pieces)
    largest = length if share >= 1 else max(ALIGNMENT, int(share * length) // ALIGNMENT * ALIGNMENT)
    return messages(stream.pieces, largest)


class _Scratch:
    """One buffer for the windows of one direction, used again in every round."""

    def __init__(self, streams: Sequence[Sequence[list[Piece]]]) -> None:
        needed = 0
        for round_ in zip_longest(*streams):
            needed = max(needed, sum(aligned(offsets(window)[-1]) for window in round_ if _is_packed(window)))
        self._buffer = memory.allocate((needed,), np.dtype(np.uint8))

    def place(
        self, members: Sequence[int], windows: Sequence[list[Piece] | None]
    ) -> tuple[list[tuple[Piece, Piece]], list[tuple[int, Bytes]]]:
        """Return the packed pieces with their places in the buffer, and the bytes of each member's window."""
        packed: list[tuple[Piece, Piece]] = []
        travelling: list[tuple[int, Bytes]] = []
        start = 0
        for member, window in zip(members, windows, strict=False):
            if not window:
                continue
            if not _is_packed(window):
                travelling.append((member, byte_view(window[0])))
                continue
            places = offsets(window)
            block = self._buffer[start : start + places[-1]]
            packed += zip(_views(block, window, places), window, strict=True)
            travelling.append((member, block))
            start = aligned(start + places[-1])
        return packed, travelling


def _is_packed(window: list[Piece] | None) -> bool:
    return window is not None and not (len(window) == 1 and window[0].flags.c_contiguous)


def _views(block: Bytes, window: Sequence[Piece], places: Sequence[int]) -> list[Piece]:
    return [
        block[place : place + piece.nbytes].view(piece.dtype).reshape(piece.shape)
        for place, piece in zip(places, window, strict=False)
    ]


def _side_by_side(streams: Sequence[Stream], size: int) -> tuple[Bytes, list[tuple[Any, Piece]], list[int]]:
    """Return one buffer for all streams, member after member, the places of the pieces in it, and its counts."""
    counts = [0] * size
    for stream in streams:
        counts[stream.member] = aligned(offsets(stream.pieces)[-1])
    buffer = memory.allocate((sum(counts),), np.dtype(np.uint8))
    places: list[tuple[Any, Piece]] = []
    start = 0
    for stream in streams:
        block = buffer[start : start + counts[stream.member]]
        places += zip(_views(block, stream.pieces, offsets(stream.pieces)), stream.pieces, strict=True)
        start += counts[stream.member]
    return buffer, places, counts
