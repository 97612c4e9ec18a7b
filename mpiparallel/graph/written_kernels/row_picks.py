"""Rows picked by index, as an embedding picks them, and one element of each row, as a loss does: copies, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.written_kernels.written_text import index_name, written_kernel

_THREADS: Final = 256
_MOST_BLOCKS: Final = 1 << 14
_WIDEST: Final = 16
_UNITS: Final = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}

_PICKS: Final = r"""
typedef $unit Unit;
KERNEL(
    const Unit* __restrict__ table, const $index* __restrict__ indices, Unit* __restrict__ target,
    long long rows, long long places, long long inner, long long first, long long count) {
    const long long stride = (long long)gridDim.x * $threads;
    for (long long at = (long long)blockIdx.x * $threads + threadIdx.x; at < count; at += stride) {
        const long long k = at % inner, place = at / inner % places, outer = at / inner / places;
        const long long row = (long long)indices[$each ? outer : place] - first;
        target[at] = row >= 0 && row < rows ? table[(outer * rows + row) * inner + k] : Unit();
    }
}
"""

_SPREAD: Final = r"""
typedef $unit Unit;
KERNEL(
    const Unit* __restrict__ given, const $index* __restrict__ indices, Unit* __restrict__ target,
    long long columns, long long first, long long count) {
    const long long stride = (long long)gridDim.x * $threads;
    for (long long at = (long long)blockIdx.x * $threads + threadIdx.x; at < count; at += stride) {
        const long long row = at / columns;
        target[at] = (long long)indices[row] - first == at % columns ? given[row] : Unit();
    }
}
"""


_HOT: Final = r"""
typedef $unit Unit;
KERNEL(
    const $index* __restrict__ indices, const Unit* __restrict__ on, const Unit* __restrict__ off,
    Unit* __restrict__ target, long long columns, long long first, long long count) {
    const Unit hot = *on, cold = *off;
    const long long stride = (long long)gridDim.x * $threads;
    for (long long at = (long long)blockIdx.x * $threads + threadIdx.x; at < count; at += stride)
        target[at] = (long long)indices[at / columns] - first == at % columns ? hot : cold;
}
"""


def can_pick(runtime: Runtime, indices: Array, *arrays: Array) -> bool:
    """Return whether the device compiles CUDA texts, and all have elements, in C order."""
    if runtime.backend.kernels is None or indices.dtype.kind not in "iu":
        return False
    return all(one.flags.c_contiguous and one.size and one.itemsize in _UNITS for one in (indices, *arrays))


def picked_rows(runtime: Runtime, table: Array, indices: Array, target: Array, axis: int, first: int) -> Kernel:
    """Return what sets ``target`` to the slices of a table along a dim, in whose place the dims of the indices stand.

    Indices count from ``first`` on; for those of no row it is 0.
    """
    outer, rows = prod(table.shape[:axis]), table.shape[axis]
    inner = prod(table.shape[axis + 1 :]) * table.itemsize
    unit = _unit(runtime, inner, table, target)
    places: dict[str, object] = {"each": 0, **_types(unit, indices)}
    count = outer * indices.size * (inner // unit)
    numbers = _numbers(rows, indices.size, inner // unit, first, count)
    return written_kernel(runtime, _PICKS, places, _blocks(count), _THREADS, table, indices, target, *numbers)


def picked_elements(runtime: Runtime, x: Array, indices: Array, target: Array, first: int) -> Kernel:
    """Return what sets ``target`` to one element of each row of ``x``, its last dim; 0 for an index of none."""
    places: dict[str, object] = {"each": 1, **_types(x.itemsize, indices)}
    numbers = _numbers(x.shape[-1], 1, 1, first, indices.size)
    return written_kernel(runtime, _PICKS, places, _blocks(indices.size), _THREADS, x, indices, target, *numbers)


def spread_elements(runtime: Runtime, given: Array, indices: Array, target: Array, first: int) -> Kernel:
    """Return what sets rows of ``target``, its last dim, to 0, but at the index of each to what is given for it."""
    numbers = _numbers(target.shape[-1], first, target.size)
    places = _types(given.itemsize, indices)
    return written_kernel(runtime, _SPREAD, places, _blocks(target.size), _THREADS, given, indices, target, *numbers)


def hot_elements(runtime: Runtime, indices: Array, values: Sequence[Array], target: Array, first: int) -> Kernel:
    """Return what sets each row of ``target``, its last dim, to the second value, and at its index to the first."""
    numbers = _numbers(target.shape[-1], first, target.size)
    places, blocks = _types(target.itemsize, indices), _blocks(target.size)
    return written_kernel(runtime, _HOT, places, blocks, _THREADS, indices, *values, target, *numbers)


def _unit(runtime: Runtime, row: int, *arrays: Array) -> int:
    """Return how many bytes of a row a thread copies at once."""
    width = _WIDEST
    while any(place % width for place in (row, *map(runtime.backend.address, arrays))):
        width //= 2
    return width


def _types(unit: int, indices: Array) -> dict[str, object]:
    name = f"Vector<unsigned, {unit // 4}>" if unit > 8 else _UNITS[unit]
    return {"unit": name, "index": index_name(indices.dtype)}


def _numbers(*values: int) -> Sequence[Any]:
    return [np.int64(value) for value in values]


def _blocks(count: int) -> int:
    return min(-(-count // _THREADS), _MOST_BLOCKS)
