"""Pieces of arrays that one message carries: packed where they are, by one kernel where that can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.written_kernels.box_packing import BoxPacking


class PackedPieces:
    """Views of arrays, and ``packed``, memory in C order in which their elements lie one after another."""

    def __init__(self, runtime: Runtime, pieces: Sequence[Array], packed: Array) -> None:
        self._copy = runtime.array_module.copyto
        self._pieces = list(zip(pieces, pieces_of(packed, [piece.shape for piece in pieces]), strict=True))
        self._boxes: BoxPacking | None = None
        if runtime.backend.kernels is not None and packed.size:
            self._boxes = BoxPacking(runtime, pieces, packed.reshape(-1))

    def load(self) -> None:
        """Bring the memory up to date."""
        if self._boxes is not None:
            self._boxes.pack()
            return
        for piece, slot in self._pieces:
            self._copy(slot, piece)

    def store(self) -> None:
        """Bring the arrays up to date."""
        if self._boxes is not None:
            self._boxes.unpack()
            return
        for piece, slot in self._pieces:
            self._copy(piece, slot)


def pieces_of(packed: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Return views of an array in C order, in which arrays of these shapes lie one after another.

    >>> [piece.tolist() for piece in pieces_of(np.arange(6).reshape(2, 3), [(2, 2), (1,), (1,)])]
    [[[0, 1], [2, 3]], [4], [5]]
    """
    flat, start, found = packed.reshape(-1), 0, []
    for shape in shapes:
        stop = start + int(np.prod(shape, dtype=np.int64))
        found.append(flat[start:stop].reshape(shape))
        start = stop
    return found
