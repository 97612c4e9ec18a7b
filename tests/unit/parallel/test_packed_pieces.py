"""Pieces of arrays that travel side by side in one message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.parallel import packed_pieces
from mpiparallel.parallel.packed_pieces import PackedPieces


class Boxes:
    """What a device's kernels would copy, by NumPy."""

    made = 0

    def __init__(self, runtime: Runtime, pieces: list[Any], packed: Any) -> None:
        assert packed.ndim == 1
        type(self).made += 1
        self._pieces, self._packed = pieces, packed

    def pack(self) -> None:
        self._packed[...] = np.concatenate([piece.reshape(-1) for piece in self._pieces])

    def unpack(self) -> None:
        start = 0
        for piece in self._pieces:
            piece[...] = self._packed[start : start + piece.size].reshape(piece.shape)
            start += piece.size


class Compiling(NumpyBackend):
    kernels: Any = object()


@pytest.mark.parametrize("backend", [NumpyBackend(), Compiling()], ids=["one by one", "one launch"])
def test_pieces_lie_side_by_side_and_go_back_to_where_they_were(
    backend: NumpyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_pieces, "BoxPacking", Boxes)
    made = Boxes.made
    whole = np.arange(24.0).reshape(4, 6)
    pieces = [whole[:, 1:3], whole[2:3, 4:], whole[0, 5:]]
    packed = np.zeros((1, 11))
    packing = PackedPieces(Runtime(backend), pieces, packed)
    packing.load()
    assert packed.tolist() == [[1, 2, 7, 8, 13, 14, 19, 20, 16, 17, 5]]
    packed *= -1
    packing.store()
    wanted = np.arange(24.0).reshape(4, 6)
    wanted[:, 1:3] *= -1
    wanted[2, 4:] *= -1
    wanted[0, 5] *= -1
    np.testing.assert_array_equal(whole, wanted)
    # Nothing is launched for pieces without elements.
    empty = PackedPieces(Runtime(backend), [whole[:0]], np.zeros(0))
    empty.load()
    empty.store()
    assert Boxes.made - made == isinstance(backend, Compiling)
