"""Rows added up at their indices, as the gradient of an embedding is: in one order, so that bits repeat.

Indices are sorted, equal ones in the order in which they came. A piece of so many sorted places is a block's. The block
writes the sum of each index whose places all lie in its piece. The indices at the piece's ends may go on in the next
piece, so it leaves those as parts. A second launch adds up the parts of each such index.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.written_kernels.index_order import stable_order
from mpiparallel.graph.written_kernels.written_text import element_type, written_kernel

_PIECE: Final = 64
_THREADS: Final = 128
_COUNTED: Final = 1 << 14
"""Indices of which each finds its place by comparing it with all; beyond, they are sorted by digits."""
_SLOT: Final = 8
"""Scratch memory that no kernel of terms uses."""

_PLACES: Final = r"""
KERNEL(
    const long long* __restrict__ indices, long long* __restrict__ sorted, long long* __restrict__ order,
    long long count) {
    __shared__ long long others[$threads];
    const long long own = (long long)blockIdx.x * $threads + threadIdx.x;
    const long long row = own < count ? indices[own] : 0;
    long long place = 0;
    for (long long first = 0; first < count; first += $threads) {
        const long long last = count - first < $threads ? count - first : $threads;
        if (threadIdx.x < last) others[threadIdx.x] = indices[first + threadIdx.x];
        __syncthreads();
        for (long long k = 0; k < last; ++k)
            place += others[k] < row || (others[k] == row && first + k < own);
        __syncthreads();
    }
    if (own < count) {
        sorted[place] = row;
        order[place] = own;
    }
}
"""

_PIECES: Final = r"""
$element
KERNEL(
    const long long* __restrict__ sorted, const long long* __restrict__ order, const Stored* __restrict__ slices,
    Stored* __restrict__ target, Wide* __restrict__ parts, long long count, long long width, long long rows) {
    const long long first = (long long)blockIdx.x * $piece, own = blockIdx.x;
    const long long last = first + $piece < count ? first + $piece : count;
    for (long long k = threadIdx.x; k < width; k += $threads) {
        Wide sum = 0;
        long long begin = first;
        for (long long place = first; place < last; ++place) {
            const long long row = sorted[place];
            if (row >= 0 && row < rows) sum += from_Stored(slices[order[place] * width + k]);
            if (place + 1 < count && sorted[place + 1] == row && place + 1 < last) continue;
            const bool goes_on = place + 1 < count && sorted[place + 1] == row;
            const bool came = begin == first && first > 0 && sorted[first - 1] == row;
            if (row >= 0 && row < rows) {
                if (came || goes_on) parts[(2 * own + (came ? 0 : 1)) * width + k] = sum;
                else target[row * width + k] = to_Stored(sum);
            }
            sum = 0;
            begin = place + 1;
        }
    }
}
"""

_PARTS: Final = r"""
$element
KERNEL(
    const long long* __restrict__ sorted, Stored* __restrict__ target, const Wide* __restrict__ parts,
    long long count, long long width, long long rows) {
    const long long end = ((long long)blockIdx.x + 1) * $piece;
    if (end >= count) return;
    const long long row = sorted[end - 1];
    if (row < 0 || row >= rows || sorted[end] != row) return;
    const long long first = end - $piece;
    if (sorted[first] == row && first > 0 && sorted[first - 1] == row) return;
    for (long long k = threadIdx.x; k < width; k += $threads) {
        Wide sum = parts[(2 * (long long)blockIdx.x + 1) * width + k];
        for (long long piece = blockIdx.x + 1; piece * $piece < count && sorted[piece * $piece] == row; ++piece)
            sum += parts[2 * piece * width + k];
        target[row * width + k] = to_Stored(sum);
    }
}
"""


def added_slices(
    runtime: Runtime,
    find_rows: Callable[[Array], object],
    indices: tuple[int, ...],
    slices: Array,
    rows: Array,
    row_rank: int,
) -> Kernel:
    """Return what sets ``rows`` to the sums of ``slices`` at the numbers of rows that ``find_rows`` puts into an array.

    It is int64, of the shape ``indices``.

    The first dims of the slices are those of the indices; the rows are the first ``row_rank`` dims.
    """
    xp, index_rank = runtime.array_module, len(indices)
    wide = (prod(slices.shape[:index_rank]), prod(slices.shape[index_rank:]))
    high = (prod(rows.shape[:row_rank]), prod(rows.shape[row_rank:]))
    given = slices if slices.flags.c_contiguous else runtime.scratch(tuple(slices.shape), slices.dtype, _SLOT)
    target = rows if rows.flags.c_contiguous else runtime.scratch(tuple(rows.shape), rows.dtype, _SLOT + 1)
    found = xp.empty(indices, np.int64)
    add_up = row_sums(runtime, found.reshape(-1), given.reshape(wide), target.reshape(high))

    def run() -> None:
        find_rows(found)
        if given is not slices:
            xp.copyto(given, slices)
        add_up()
        if target is not rows:
            xp.copyto(rows, target)

    return run


def row_sums(runtime: Runtime, indices: Array, slices: Array, target: Array) -> Kernel:
    """Return what sets ``target`` (rows, width) to sums of ``slices`` (count, width) at ``indices`` (count,) of int64.

    Both are in C order. Indices out of range count for nothing.
    """
    xp, (count, width) = runtime.array_module, slices.shape
    if not count or not width or not len(target):
        return partial(target.fill, 0)
    wide = np.dtype(np.float64 if target.dtype == np.float64 else np.float32)
    pieces = -(-count // _PIECE)
    order, parts = xp.empty(count, np.int64), xp.empty((pieces, 2, width), wide)
    ordered = xp.empty(count, np.int64)
    places: dict[str, object] = {"element": element_type(target.dtype), "piece": _PIECE}
    numbers = np.int64(count), np.int64(width), np.int64(len(target))
    bind = partial(written_kernel, runtime)
    add_pieces = bind(_PIECES, places, pieces, _THREADS, *(ordered, order, slices, target, parts), *numbers)
    add_parts = bind(_PARTS, places, pieces, _THREADS, ordered, target, parts, *numbers)

    if count <= _COUNTED:
        in_order = bind(_PLACES, {}, -(-count // _THREADS), _THREADS, indices, ordered, order, np.int64(count))
    else:
        in_order = stable_order(runtime, indices, len(target), ordered, order)

    def run() -> None:
        in_order()
        target.fill(0)
        add_pieces()
        add_parts()

    return run
