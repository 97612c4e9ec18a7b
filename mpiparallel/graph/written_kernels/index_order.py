"""Indices in ascending order, equal ones as they came, on a device: sorted by four bits at a time, in one order.

A block counts the digits of a tile, of which each thread has neighbours. The counts of all tiles are added up, digit by
digit, and each block puts its indices where they belong. Nothing is added atomically, or allocated in a run.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.written_kernels.written_text import written_kernel

_BITS: Final = 4
_THREADS: Final = 256
_OWN: Final = 16
"""Neighbours that a thread has."""

_COMMON: Final = r"""
enum { BINS = 1 << $bits, OWN = $own, TILE = OWN * $threads };

// What comes before each thread's part of a tile: digit after digit, and within a digit thread after thread.
__device__ __forceinline__ void count_digits(
    int* before, int* sums, const long long* keys, long long first, long long count, long long rows, int shift) {
    for (int bin = 0; bin < BINS; ++bin) before[bin * $threads + threadIdx.x] = 0;
    for (int k = 0; k < OWN; ++k)
        if (first + k < count) ++before[digit_of(keys[first + k], rows, shift) * $threads + threadIdx.x];
    __syncthreads();
    int own = 0;
    for (int k = 0; k < BINS; ++k) own += before[threadIdx.x * BINS + k];
    sums[threadIdx.x] = own;
    __syncthreads();
    int total = 0;
    for (int distance = 1; distance < $threads; distance *= 2) {
        total = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
        __syncthreads();
        sums[threadIdx.x] += total;
        __syncthreads();
    }
    total = sums[threadIdx.x] - own;
    for (int k = 0; k < BINS; ++k) {
        const int here = before[threadIdx.x * BINS + k];
        before[threadIdx.x * BINS + k] = total;
        total += here;
    }
    __syncthreads();
}
"""

_DIGITS: Final = r"""
// Those that are no row come last.
__device__ __forceinline__ long long key_of(long long index, long long rows) {
    return index >= 0 && index < rows ? index : rows;
}
__device__ __forceinline__ int digit_of(long long index, long long rows, int shift) {
    return (int)(key_of(index, rows) >> shift & ((1 << $bits) - 1));
}
"""

_COUNTS: Final = (
    _DIGITS
    + _COMMON
    + r"""
KERNEL(const long long* __restrict__ keys, long long* __restrict__ totals, long long count, long long rows, int shift) {
    __shared__ int before[BINS * $threads], sums[$threads];
    const long long start = (long long)blockIdx.x * TILE;
    count_digits(before, sums, keys, start + (long long)threadIdx.x * OWN, count, rows, shift);
    if (threadIdx.x < BINS) {
        const int end = threadIdx.x + 1 < BINS ? before[(threadIdx.x + 1) * $threads] : sums[$threads - 1];
        totals[(long long)threadIdx.x * gridDim.x + blockIdx.x] = end - before[threadIdx.x * $threads];
    }
}
"""
)

_STARTS: Final = r"""
KERNEL(long long* __restrict__ totals, long long count) {
    __shared__ long long sums[$threads];
    const long long share = (count + $threads - 1) / $threads, first = threadIdx.x * share;
    const long long last = first + share < count ? first + share : count;
    long long own = 0;
    for (long long at = first; at < last; ++at) own += totals[at];
    sums[threadIdx.x] = own;
    __syncthreads();
    long long before = 0;
    for (int thread = 0; thread < threadIdx.x; ++thread) before += sums[thread];
    for (long long at = first; at < last; ++at) {
        const long long here = totals[at];
        totals[at] = before;
        before += here;
    }
}
"""

_MOVES: Final = (
    _DIGITS
    + _COMMON
    + r"""
KERNEL(
    const long long* __restrict__ keys, const long long* __restrict__ places, const long long* __restrict__ totals,
    long long* __restrict__ sorted, long long* __restrict__ order, long long count, long long rows, int shift) {
    __shared__ int before[BINS * $threads], starts[BINS], sums[$threads];
    const long long first = (long long)blockIdx.x * TILE + (long long)threadIdx.x * OWN;
    count_digits(before, sums, keys, first, count, rows, shift);
    if (threadIdx.x < BINS) starts[threadIdx.x] = before[threadIdx.x * $threads];
    __syncthreads();
    for (int k = 0; k < OWN && first + k < count; ++k) {
        const int digit = digit_of(keys[first + k], rows, shift), within = before[digit * $threads + threadIdx.x]++;
        const long long place = totals[(long long)digit * gridDim.x + blockIdx.x] + within - starts[digit];
        sorted[place] = key_of(keys[first + k], rows);
        order[place] = shift ? places[first + k] : first + k;
    }
}
"""
)


def stable_order(runtime: Runtime, indices: Array, rows: int, ordered: Array, order: Array) -> Kernel:
    """Return what sets ``ordered`` to indices in ascending order, and ``order`` to where each was; all are of int64.

    Those that are no row, below 0 or from ``rows`` on, come last, and are ``rows`` there.
    """
    xp, count = runtime.array_module, indices.size
    tiles = -(-count // (_OWN * _THREADS))
    totals = xp.empty((tiles << _BITS,), np.int64)
    others = xp.empty(count, np.int64), xp.empty(count, np.int64)
    shifts = range(0, max(rows.bit_length(), 1), _BITS)
    bind = partial(written_kernel, runtime)
    places: dict[str, object] = {"bits": _BITS, "own": _OWN}
    steps = []
    source = indices, order
    for shift in shifts:
        # The last pass writes where the result is wanted, the one before it elsewhere.
        left = (len(shifts) * _BITS - shift) // _BITS
        target = (ordered, order) if left % 2 else others
        numbers = np.int64(count), np.int64(rows), np.int32(shift)
        steps += [
            bind(_COUNTS, places, tiles, _THREADS, source[0], totals, *numbers),
            bind(_STARTS, places, 1, _THREADS, totals, np.int64(totals.size)),
            bind(_MOVES, places, tiles, _THREADS, *source, totals, *target, *numbers),
        ]
        source = target

    def run() -> None:
        for step in steps:
            step()

    return run
