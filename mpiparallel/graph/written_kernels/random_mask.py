"""Dropout on a device: the mask of `RandomBox`, bit by bit, made where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from mpiparallel.backend.counter_random import keep_limit
from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.written_kernels.written_text import element_type, written_kernel
from mpiparallel.layout.box import Box

_THREADS: Final = 256
_MOST_BLOCKS: Final = 1 << 14

MIXED: Final = r"""
__device__ __forceinline__ unsigned mixed(unsigned bits) {
    bits ^= bits >> 16;
    bits *= 0x21f0aaadu;
    bits ^= bits >> 15;
    bits *= 0xd35a2d97u;
    return bits ^ bits >> 15;
}
__device__ __forceinline__ bool is_kept(unsigned long long key, unsigned long long index, unsigned limit) {
    const unsigned first = mixed((unsigned)index ^ (unsigned)key) + (unsigned)(index >> 32);
    return mixed(first ^ (unsigned)(key >> 32)) < limit;
}
"""
"""The random bits of an element: those of `counter_random`, which says where the numbers are from."""

_TEXT: Final = r"""
$element
$mixed
KERNEL(
    const Stored* __restrict__ x, Stored* __restrict__ y, bool* __restrict__ mask,
    const unsigned long long* __restrict__ key, unsigned limit, double scale, long long count, $extents) {
    const unsigned long long own = *key;
    const long long stride = (long long)gridDim.x * $threads;
    for (long long at = (long long)blockIdx.x * $threads + threadIdx.x; at < count; at += stride) {
        unsigned long long index = $start;
        long long rest = at;
$unravelled
        const bool kept = is_kept(own, index, limit);
        mask[at] = kept;
        y[at] = to_Stored(from_Stored(x[at]) * (Wide)kept * (Wide)scale);
    }
}
"""


def dropout(
    runtime: Runtime, probability: float, whole: Sequence[int], box: Box, key: Array, arrays: Sequence[Array]
) -> Kernel:
    """Return what sets y and the mask, the last two of ``arrays``, from x, by the key that a device's array holds.

    All are in C order; they are the ``box`` of tensors of the shape ``whole``.
    """
    x, target, mask = arrays
    strides = [prod(whole[dim + 1 :]) for dim in range(len(whole))]
    lines, numbers, names = [], [], []
    for dim in reversed(range(len(whole))):
        lines.append(f"        index += (unsigned long long)(rest % n{dim}) * {strides[dim]}ull;")
        lines.append(f"        rest /= n{dim};")
        names.append(f"long long n{dim}")
        numbers.append(np.int64(box.shape[dim]))
    start = sum(begin * stride for begin, stride in zip(box.start, strides, strict=True))
    places: dict[str, Any] = {
        "element": element_type(x.dtype),
        "mixed": MIXED,
        "start": f"{start}ull",
        "extents": ", ".join(names) or "long long",
        "unravelled": "\n".join(lines),
    }
    blocks = min(-(-x.size // _THREADS), _MOST_BLOCKS)
    given = (np.uint32(keep_limit(probability)), np.float64(1.0 / probability), np.int64(x.size))
    last = numbers or [np.int64(0)]
    return written_kernel(runtime, _TEXT, places, blocks, _THREADS, x, target, mask, key, *given, *last)
