"""The kernel of a product of matrices, whatever multiplies them."""

from __future__ import annotations

from functools import partial

import numpy as np

from mpiparallel.backend.blas_threads import blas_threads
from mpiparallel.backend.pair_products import pair_product
from mpiparallel.backend.protocol import Array
from mpiparallel.dtype import is_narrow
from mpiparallel.graph.execution.runtime import Kernel, Runtime

_THREADS = 2
"""Threads of BLAS that are as fast in float32 as one in bfloat16."""


def product_kernel(runtime: Runtime, x: Array, y: Array, output: Array) -> Kernel:
    """Return what sets ``output`` to the product of the last two dims of ``x`` and ``y``; leading dims broadcast.

    On a CPU products of 16 bits are summed in float32 and rounded once: by the processor where it has AVX512-BF16, else
    by BLAS, which has none of 16 bits.
    """
    if runtime.backend.name != "cpu" or not is_narrow(output.dtype):
        return partial(runtime.array_module.matmul, x, y, out=output)
    product = pair_product(x, y, output, runtime.scratch) if blas_threads() <= _THREADS else None
    return product or _wide_product(runtime, x, y, output)


def _wide_product(runtime: Runtime, x: Array, y: Array, output: Array) -> Kernel:
    xp = runtime.array_module

    def run() -> None:
        wide = [runtime.scratch(one.shape, np.float32, slot) for slot, one in enumerate((x, y, output))]
        wide[0][...] = x
        wide[1][...] = y
        xp.matmul(wide[0], wide[1], out=wide[2])
        xp.copyto(output, wide[2], casting="same_kind")

    return run
