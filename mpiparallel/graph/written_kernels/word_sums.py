"""Sums of the words of memory, each times a weight of its place: they tell whether bytes arrived as they were sent.

The weights are odd random numbers modulo 2^64, the same everywhere. Bytes of a message count as words of four bytes;
the last word is filled up with zeros. Two changed words cancel each other at most once in 2^32 cases.
The elements of a part of a tensor count by their places in the whole, as ``reshard.tensor_digest`` has it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime, do_nothing
from mpiparallel.graph.written_kernels.written_text import written_kernel
from mpiparallel.layout.box import Box

BLOCKS: Final = 128
"""Partial sums that each call leaves, to be added up by who reads them."""
_THREADS: Final = 256
_TYPES: Final = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

_TEXT: Final = r"""
typedef $unit Unit;
typedef unsigned long long Sum;
__device__ __forceinline__ Sum weight(Sum bits) {
    bits += ${step}ull;
    bits = (bits ^ (bits >> 30)) * ${first}ull;
    bits = (bits ^ (bits >> 27)) * ${second}ull;
    return (bits ^ (bits >> 31)) | 1;
}
KERNEL(
    const Unit* __restrict__ units, const long long* __restrict__ box, Sum* __restrict__ sums, long long count,
    long long blocks) {
    __shared__ Sum parts[$threads];
    Sum sum = 0;
    for (long long at = (long long)blockIdx.x * $threads + threadIdx.x; at < count; at += blocks * $threads) {
        long long rest = at / $together;
        Sum place = 0;
        for (int dim = $rank - 1; dim >= 0; --dim) {
            place += (Sum)(rest % box[3 * dim] + box[3 * dim + 1]) * (Sum)box[3 * dim + 2];
            rest /= box[3 * dim];
        }
        const int within = (int)(at % $together);
        if ($bytes) sum += ((Sum)units[at] << (within * 8 * (int)sizeof(Unit))) * weight(place);
        else sum += (Sum)units[at] * weight(place * $together + within);
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = $threads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = parts[0];
}
"""


def byte_sums(runtime: Runtime, content: Array, sums: Array) -> Kernel:
    """Return what leaves in ``sums``, uint64, partial sums of bytes that lie one after another."""
    start = runtime.backend.address(content) if content.size else 0
    unit = 4 if start % 4 == 0 and content.size % 4 == 0 else 1
    words = np.array([[-(-content.size // 4), 0, 1]], np.int64)
    return _sums(runtime, content.view(np.dtype(f"u{unit}")), words, sums, together=4 // unit, is_message=True)


def part_sums(runtime: Runtime, part: Array, box: Box, global_shape: tuple[int, ...], sums: Array) -> Kernel:
    """Return what leaves in ``sums`` partial sums of an array in C order, which is ``box`` of a tensor."""
    unit = part.dtype.itemsize if part.dtype.itemsize in _TYPES else 1
    steps = [int(np.prod(global_shape[dim + 1 :], dtype=np.int64)) for dim in range(len(global_shape))]
    dims = np.array(list(zip(box.shape, box.start, steps, strict=True)), np.int64).reshape(-1, 3)
    seen = part.reshape(-1).view(np.dtype(f"u{unit}"))
    return _sums(runtime, seen, dims, sums, together=part.dtype.itemsize // unit, is_message=False)


def _sums(
    runtime: Runtime, units: Array, dims: np.ndarray[Any, Any], sums: Array, *, together: int, is_message: bool
) -> Kernel:
    if not units.size:
        return do_nothing
    if runtime.backend.kernels is None:
        return lambda: _by_array_library(runtime, units, dims, sums, together, is_message)
    places: dict[str, object] = {
        "unit": _TYPES[units.dtype.itemsize],
        "rank": len(dims),
        "together": together,
        "bytes": int(is_message),
        "step": _STEP,
        "first": _FIRST,
        "second": _SECOND,
    }
    # A tensor without dims has a row all the same: there is no empty memory to point to.
    box = runtime.backend.from_host(dims if len(dims) else np.zeros((1, 3), np.int64))
    blocks = min(BLOCKS, -(-units.size // _THREADS))
    given = units, box, sums, np.int64(units.size), np.int64(blocks)
    return written_kernel(runtime, _TEXT, places, blocks, _THREADS, *given)


def _by_array_library(
    runtime: Runtime, units: Array, dims: np.ndarray[Any, Any], sums: Array, together: int, is_message: bool
) -> None:
    xp = runtime.array_module
    at = xp.arange(units.size, dtype=np.uint64)
    rest, place = at // np.uint64(together), xp.zeros(units.size, np.uint64)
    for extent, first, step in dims[::-1].astype(np.uint64):
        place += (rest % extent + first) * step
        rest = rest // extent
    within, values = at % np.uint64(together), units.astype(np.uint64)
    if is_message:
        values = values << (within * np.uint64(8 * units.dtype.itemsize))
    else:
        place = place * np.uint64(together) + within
    bits = place + np.uint64(_STEP)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_FIRST)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_SECOND)
    sums[:1] = (values * ((bits ^ (bits >> np.uint64(31))) | np.uint64(1))).sum(dtype=np.uint64)
