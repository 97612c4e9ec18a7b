"""What is saved and loaded: float32 tensors, how they lie on the ranks, and numbers that tell each element's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

Arrays = dict[str, NDArray[np.float32]]
Shape = tuple[int, ...]

FLOAT_BYTES = 4
_MEBIBYTE = 1 << 20
_WIDTH = 1024
_VECTORS_A_MATRIX = 4
_LARGE = 4
_LARGE_WIDTH = 4096
_SMALL_SHAPE = (32, 32)
_MOST_SMALL = 2000
_ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class State:
    """Shapes of float32 tensors by name, for a size in MiB."""

    meaning: str
    shapes: Callable[[int], dict[str, Shape]]


@dataclass(frozen=True)
class Load:
    """How a saved state is asked for: on how many ranks, and how its tensors lie there."""

    meaning: str
    source: str
    target: str
    ranks: Callable[[int], int]


def transformer(mebibytes: int) -> dict[str, Shape]:
    """Return matrices of 4 MiB, four vectors of 4 KiB beside each."""
    shapes: dict[str, Shape] = {}
    for index in range(max(1, mebibytes * _MEBIBYTE // (_WIDTH * _WIDTH * FLOAT_BYTES))):
        shapes[f"layer{index}.weight"] = _WIDTH, _WIDTH
        shapes |= {f"layer{index}.vector{number}": (_WIDTH,) for number in range(_VECTORS_A_MATRIX)}
    return shapes


def small(mebibytes: int) -> dict[str, Shape]:
    """Return at most 2,000 matrices of 4 KiB."""
    count = min(_MOST_SMALL, mebibytes * _MEBIBYTE // (prod(_SMALL_SHAPE) * FLOAT_BYTES))
    return {f"tensor{index:04}": _SMALL_SHAPE for index in range(count)}


def large(mebibytes: int) -> dict[str, Shape]:
    """Return four matrices."""
    rows = max(8, mebibytes * _MEBIBYTE // (_LARGE * _LARGE_WIDTH * FLOAT_BYTES))
    return {f"table{index}": (rows, _LARGE_WIDTH) for index in range(_LARGE)}


STATES: Mapping[str, State] = {
    "transformer": State("matrices of 4 MiB, each with 4 vectors of 4 KiB", transformer),
    "small": State("2,000 matrices of 4 KiB", small),
    "large": State("4 matrices", large),
}
SOURCES: Mapping[str, str] = {
    "rows": "matrices cut by rows, vectors on every rank",
    "whole": "all of it on every rank, each tensor written once",
}
LOADS: Mapping[str, Load] = {
    "same": Load("as it was saved", "rows", "rows", lambda ranks: ranks),
    "columns": Load("rows to columns", "rows", "columns", lambda ranks: ranks),
    "fewer": Load("rows on half as many ranks", "rows", "rows", lambda ranks: ranks // 2),
    "replicated": Load("all of it on every rank", "whole", "whole", lambda ranks: ranks),
}


def layouts_of(shapes: Mapping[str, Shape], kind: str, ranks: int) -> dict[str, Layout]:
    """Return how tensors lie on ``ranks`` ranks: ``rows``, ``columns`` or ``whole``; vectors are whole anyway."""
    devices = DeviceMatrix((ranks,))
    cut = {"rows": ((0,), ()), "columns": ((), (0,))}
    return {
        name: Layout.replicated(shape, devices)
        if kind == "whole" or len(shape) == 1
        else Layout(shape, devices, cut[kind])
        for name, shape in shapes.items()
    }


def arrays_of(layouts: Mapping[str, Layout], rank: int) -> Arrays:
    """Return what a rank holds of each tensor."""
    made = {}
    for name, layout in layouts.items():
        made[name] = np.empty(layout.local_shape(rank), np.float32)
        for rows, numbers in _numbers(name, layout, rank):
            made[name][rows] = numbers
    return made


def difference(layouts: Mapping[str, Layout], rank: int, found: Mapping[str, NDArray[Any]]) -> str:
    """Return the name of the first tensor that is not what ``arrays_of`` makes, or the empty text."""
    for name, layout in layouts.items():
        array = np.asarray(found[name]).reshape(layout.local_shape(rank))
        for rows, numbers in _numbers(name, layout, rank):
            if not np.array_equal(array[rows], numbers):
                return name
    return ""


def _numbers(name: str, layout: Layout, rank: int) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yield, some rows at a time, numbers below 2 to the 24 that tell each element's place in the global tensor."""
    box: Box = layout.box(rank)
    salt = crc32(name.encode())
    inner = np.zeros((1,) * (len(box.shape) - 1), np.int64)
    if len(box.shape) == 2:
        inner = np.arange(box.start[1], box.stop[1], dtype=np.int64)
    row = prod(layout.global_shape[1:])
    for begin in range(0, box.shape[0], _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, box.shape[0])
        outer = np.arange(box.start[0] + begin, box.start[0] + end, dtype=np.int64) * row
        places = outer.reshape(-1, *(1,) * inner.ndim) + inner
        yield slice(begin, end), ((places * 40503 + salt) & 0xFFFFFF).astype(np.float32)
