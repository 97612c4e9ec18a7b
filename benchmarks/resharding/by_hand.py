"""Pack, Alltoallv, unpack, as a programmer of MPI writes it in NumPy for one case."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from resharding.work import Arrays, Work

Pieces = list[tuple[NDArray[np.float32], NDArray[np.float32]]]
_LARGEST_COUNT = (1 << 31) - 1
_LONG_ELEMENT = 1 << 16


class PackedAlltoallv:
    """One Alltoallv for all tensors from a buffer made before; what stays on a rank is copied directly.

    Where a rank receives one tensor in pieces that lie in the order of their sources, they land where they belong.
    """

    def __init__(self, work: Work) -> None:
        self._comm = work.comm
        self._targets = work.new_arrays(1)
        self._targets.update({name: work.sources[name] for name in work.plan.kept})
        sends, receives = work.plan.sends, work.plan.receives
        given = [work.outgoing(transfer, work.sources) for transfer in sends]
        taken = [work.incoming(transfer, self._targets) for transfer in receives]
        self._send_buffer, self._packing = packed(given)
        self._own = [
            (work.incoming(copy, self._targets), work.outgoing(copy, work.sources)) for copy in work.plan.copies
        ]
        sent = counts_of([transfer.target for transfer in sends], given, work.ranks)
        received = counts_of([transfer.source for transfer in receives], taken, work.ranks)
        self._unpacking: Pieces = []
        starts: Sequence[int] | None = None
        if len({transfer.tensor for transfer in receives}) == 1 and all(view.flags.c_contiguous for view in taken):
            array = self._targets[receives[0].tensor]
            self._receive_buffer = array.reshape(-1)
            starts = [0] * work.ranks
            for transfer, view in zip(receives, taken, strict=True):
                starts[transfer.source] = (address(view) - address(array)) // array.itemsize
        else:
            self._receive_buffer, unpacking = packed(taken)
            self._unpacking = [(target, piece) for piece, target in unpacking]
        total = max(self._send_buffer.size, self._receive_buffer.size)
        length = 1 if total * 4 <= _LARGEST_COUNT else _LONG_ELEMENT
        self._talks = work.comm.allreduce(bool(sends), MPI.LOR)
        self._element = MPI.FLOAT.Create_contiguous(length).Commit()
        self._sent = message(self._send_buffer, sent, None, length, self._element)
        self._received = message(self._receive_buffer, received, starts, length, self._element)

    def run(self) -> None:
        for piece, source in self._packing:
            np.copyto(piece, source)
        if self._talks:
            self._comm.Alltoallv(self._sent, self._received)
        for target, source in self._own:
            np.copyto(target, source)
        for target, piece in self._unpacking:
            np.copyto(target, piece)

    def results(self) -> Arrays:
        return self._targets

    def close(self) -> None:
        self._element.Free()


def packed(views: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.float32], Pieces]:
    """Return a buffer for all views in a row, and each view's place in it beside the view."""
    ends = list(accumulate((view.size for view in views), initial=0))
    buffer = np.zeros(ends[-1], np.float32)
    places = [buffer[start : start + view.size].reshape(view.shape) for start, view in zip(ends, views, strict=False)]
    return buffer, list(zip(places, views, strict=True))


def counts_of(peers: Sequence[int], views: Sequence[NDArray[np.float32]], ranks: int) -> list[int]:
    """Return how many elements pass between this rank and each other one."""
    counts = [0] * ranks
    for peer, view in zip(peers, views, strict=True):
        counts[peer] += view.size
    return counts


def address(view: NDArray[np.float32]) -> int:
    """Return where the first element lies."""
    start: int = view.__array_interface__["data"][0]
    return start


def message(
    buffer: NDArray[np.float32], counts: Sequence[int], starts: Sequence[int] | None, length: int, element: MPI.Datatype
) -> list[object]:
    """Return one side of Alltoallv, counted in elements of ``length`` float32; without ``starts``, blocks in a row."""
    if starts is None:
        starts = list(accumulate(counts, initial=0))[:-1]
    if any(number % length for number in (*counts, *starts)):
        raise ValueError(f"counts {counts} from {starts} on are no multiples of {length}")
    return [buffer, ([count // length for count in counts], [start // length for start in starts]), element]
