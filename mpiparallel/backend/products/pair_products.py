"""Whether this processor multiplies bfloat16 by itself, and how such a product is bound to arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np

from mpiparallel.backend import jit
from mpiparallel.backend.blas_threads import blas_threads
from mpiparallel.backend.products.product import Product, Scratch

Array = np.ndarray[Any, Any]

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_OUTPUTS = (_BFLOAT16, np.dtype(np.float32))
_VARIABLE = "MPIPARALLEL_BFLOAT16_PRODUCTS"
SMALLEST = 1 << 18
"""Multiplications below which a product by way of float32 costs less than loading the compiled one is worth."""
_THREADS = 2
"""Threads of BLAS that are as fast in float32 as one in bfloat16."""
_SLOT = 40


class PairProducts:
    """Products of a processor that multiplies bfloat16 by itself; those of other dtypes are BLAS's."""

    def bind(self, product: Product, scratch: Scratch) -> Callable[[], object] | None:
        """Return what computes a product of bfloat16; None where BLAS in float32 is as fast, or more is wanted."""
        if not product.is_plain or blas_threads() > _THREADS:
            return None
        return pair_product(product.x, product.y, product.output, scratch)


def pair_product(x: Array, y: Array, output: Array, scratch: Scratch) -> Callable[[], object] | None:
    """Return what sets ``output``, bfloat16 or float32, to the product of matrices or stacks of them in bfloat16.

    None where the processor has no AVX512-BF16, numba is not there or not wanted, the product is small, or the dtypes
    are others. The last two dims may have any strides, so transposed matrices are as good as others.
    """
    if x.dtype != _BFLOAT16 or y.dtype != _BFLOAT16 or output.dtype not in _OUTPUTS:
        return None
    if output.size * x.shape[-1] < SMALLEST or not is_wanted() or not is_at_hand():
        return None
    if output.strides[-1] != output.itemsize and output.strides[-2] == output.itemsize:
        x, y, output = y.swapaxes(-1, -2), x.swapaxes(-1, -2), output.swapaxes(-1, -2)
    steps: list[Callable[[], object]] = []
    given = []
    for slot, one in enumerate((x, y), _SLOT):
        fits = one.itemsize in one.strides[-2:]
        given.append(one if fits else scratch(one.shape, one.dtype, slot))
        if not fits:
            steps.append(partial(np.copyto, given[-1], one))
    fits = output.strides[-1] == output.itemsize
    target = output if fits else scratch(output.shape, output.dtype, _SLOT + 2)
    steps.append(_bound(*_rows_together(given[0], given[1], target), scratch))
    if not fits:
        steps.append(partial(np.copyto, output, target))
    return steps[0] if len(steps) == 1 else partial(_run_all, steps)


def is_wanted(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether products may be compiled: not where ``MPIPARALLEL_BFLOAT16_PRODUCTS`` is float32.

    >>> is_wanted({"MPIPARALLEL_BFLOAT16_PRODUCTS": "float32"})
    False
    """
    return jit.wanted(variables) and variables.get(_VARIABLE, "").lower() != "float32"


@cache
def is_at_hand() -> bool:
    """Return whether the processor has AVX512-BF16, and numba compiles for it."""
    if find_spec("numba") is None:
        return False
    from llvmlite import binding  # an optional extra, and slow to import
    from numba.core import config

    has = bool(binding.get_host_cpu_features().get("avx512bf16"))
    # numba may have been told to compile for another processor.
    return has and config.CPU_NAME is None and "+avx512bf16" in (config.CPU_FEATURES or "+avx512bf16").split(",")


def _rows_together(x: Array, y: Array, output: Array) -> tuple[Array, Array, Array]:
    """Return x and the output as one matrix each where all matrices of a stack are multiplied by the same one."""
    if y.size != y.shape[-1] * y.shape[-2] or x.shape[:-2] != output.shape[:-2]:
        return x, y, output
    rows = range(x.ndim - 2)
    for one in (x, output):
        if any(one.strides[dim] != one.strides[dim + 1] * one.shape[dim + 1] for dim in rows):
            return x, y, output
    matrices = (
        np.lib.stride_tricks.as_strided(one, (one.size // one.shape[-1], one.shape[-1]), one.strides[-2:])
        for one in (x, output)
    )
    first, last = matrices
    return first, y.reshape(y.shape[-2:]), last


def _bound(x: Array, y: Array, output: Array, scratch: Scratch) -> Callable[[], object]:
    from mpiparallel.backend.products import bfloat16_product as loops  # needs numba

    (height, depth), width = x.shape[-2:], y.shape[-1]
    batch = output.shape[:-2]
    places = np.stack([_starts(one, batch) for one in (x, y, output)], axis=1)
    blocks = loops.Blocks.of(height, width, depth)
    sizes = blocks.memory(height, width, depth)
    memory = [scratch((size,), np.uint8, slot) for slot, size in enumerate(sizes, _SLOT + 3)]
    addresses = [one.ctypes.data for one in (x, y, output)]
    strides = (*x.strides[-2:], *y.strides[-2:], output.strides[-2])
    starts = [one.ctypes.data for one in memory]
    arguments = (places, (height, width, depth), tuple(blocks), *addresses, strides, output.itemsize, *starts)
    held = (x, y, output, memory)

    def run(multiply: Any = loops.multiply, arrays: object = held) -> None:
        multiply(*arguments)

    return run


def _starts(array: Array, batch: tuple[int, ...]) -> Array:
    """Return where each matrix of a stack of this shape starts, in bytes from the first."""
    lacking = len(batch) - (array.ndim - 2)
    starts = np.zeros(batch, np.int64)
    for dim, extent in enumerate(array.shape[:-2], lacking):
        steps = np.arange(batch[dim], dtype=np.int64) * (array.strides[dim - lacking] if extent != 1 else 0)
        starts += steps.reshape((-1,) + (1,) * (len(batch) - dim - 1))
    return starts.reshape(-1)


def _run_all(steps: list[Callable[[], object]]) -> None:
    for step in steps:
        step()
