"""Pieces of arrays that one message carries: packed on the device, where it can, for one copy to MPI's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.written_kernels.box_packing import BoxPacking


class PackedPieces:
    """Views of arrays, and ``packed``, host memory in C order in which their elements lie one after another."""

    def __init__(self, runtime: Runtime, pieces: Sequence[Array], packed: np.ndarray[Any, Any]) -> None:
        self._backend = runtime.backend
        self._packed = packed
        self._pieces = list(zip(pieces, pieces_of(packed, [piece.shape for piece in pieces]), strict=True))
        self._boxes: BoxPacking | None = None
        if runtime.backend.kernels is not None and packed.size:
            self._device = runtime.backend.empty(packed.nbytes).view(packed.dtype)
            self._boxes = BoxPacking(runtime, pieces, self._device)

    def load(self) -> None:
        """Bring the host's memory up to date."""
        if self._boxes is not None:
            self._boxes.pack()
            self._backend.copy_to_host(self._device, self._packed.reshape(-1))
            return
        for piece, slot in self._pieces:
            self._backend.copy_to_host(piece, slot)

    def store(self) -> None:
        """Bring the arrays up to date."""
        if self._boxes is not None:
            self._backend.copy_from_host(self._packed.reshape(-1), self._device)
            self._boxes.unpack()
            return
        for piece, slot in self._pieces:
            self._backend.copy_from_host(slot, piece)


def pieces_of(packed: np.ndarray[Any, Any], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray[Any, Any]]:
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
