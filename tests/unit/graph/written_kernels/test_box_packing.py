"""Boxes that are packed side by side and put back: what the launch is told copies each element once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.written_kernels.box_packing import BoxPacking

Array = Any
SHARE = 2048
"""Units that a block copies."""
UNITS = {"unsigned char": 1, "unsigned short": 2, "unsigned int": 4, "unsigned long long": 8}


def aligned(shape: tuple[int, ...], dtype: Any = np.float32, behind: int = 0) -> Array:
    """Return an array that begins so many bytes behind a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 128, np.uint8)
    first = -memory.ctypes.data % 64 + behind
    return memory[first : first + size].view(dtype).reshape(shape)


class Packing(NumpyBackend):
    """It copies as the text does that packs boxes, element by element, as it is told by the arguments."""

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.kernels: Any = SimpleNamespace(bind=self.bind)

    def bind(self, _name: str, text: str, blocks: int, _threads: int, arguments: tuple[Any, ...]) -> Any:
        table, owners, starts, rows, packed = arguments
        self.blocks.append(blocks)
        packs = "if (1) packed" in text
        rank = (rows.shape[1] - 2) // 2
        unit = UNITS.get(text.partition(" Unit;")[0].rpartition("typedef ")[2], 16)

        def run() -> None:
            target = packed.view(np.uint8)
            for own, begin in zip(owners, starts, strict=True):
                box, (*dims, offset, count) = table.arrays[own], rows[own].tolist()
                flat = box.base[box.ctypes.data - box.base.ctypes.data :]
                for at in range(begin, min(begin + SHARE, count)):
                    rest, place = at, 0
                    for extent, step in reversed([*zip(dims[:rank], dims[rank:], strict=True)]):
                        place += rest % extent * step
                        rest //= extent
                    source = slice(place * unit, (place + 1) * unit)
                    there = slice((offset + at) * unit, (offset + at + 1) * unit)
                    if packs:
                        target[there] = flat[source]
                    else:
                        flat[source] = target[there]

        return run


def boxes_of(array: Array) -> list[Array]:
    return [array[:, 4:8], array[1:3, :4], array[:0], array[2:, 8:9]]


@pytest.mark.parametrize("places", [None, [40, 0, 77, 60]])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_boxes_lie_side_by_side_or_at_their_places_and_come_back_as_they_were(
    dtype: Any, places: list[int] | None
) -> None:
    backend, array = Packing(), aligned((4, 16), dtype)
    array[...] = np.arange(64).reshape(4, 16)
    packed = aligned((80,), dtype)
    packing = BoxPacking(Runtime(backend), boxes_of(array), packed, places)
    packing.pack()
    wanted = np.zeros(80)
    starts = [0, 16, 24, 24] if places is None else places
    for box, start in zip(boxes_of(array.copy()), starts, strict=True):
        wanted[start : start + box.size] = box.ravel()
    np.testing.assert_array_equal(packed, wanted)
    before = array.copy()
    array[...] = 0
    packing.unpack()
    seen = np.zeros_like(array)
    for box, original in zip(boxes_of(seen), boxes_of(before), strict=True):
        box[...] = original
    np.testing.assert_array_equal(array, seen)


@pytest.mark.parametrize(
    ("width", "behind", "blocks"),
    [(2048, 1, 1), (2049, 1, 2), (5001, 1, 3), (8192, 4, 1), (32768, 16, 1), (32784, 16, 2)],
)
def test_a_block_copies_2048_units_of_as_many_bytes_as_addresses_and_lengths_allow(
    width: int, behind: int, blocks: int
) -> None:
    backend, array, packed = Packing(), aligned((2, width), np.int8, behind), aligned((width,), np.int8)
    array[...] = np.arange(2 * width).reshape(2, width) % 101
    packing = BoxPacking(Runtime(backend), [array[0]], packed)
    packing.pack()
    np.testing.assert_array_equal(packed, np.arange(width) % 101)
    assert backend.blocks == [blocks] * 2
