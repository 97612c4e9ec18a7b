"""Tensor cores: 16 x 16 by 16 x 8 numbers of 16 bits, the product added to 16 x 8 of float32, by the lanes of a warp.

Lane 4 g + t has of the first matrix rows g and g + 8, columns 2 t, 2 t + 1 and those 8 further; of the second, as many
rows of column g; of the sum, columns 2 t and 2 t + 1 of rows g and g + 8 (NVIDIA, "PTX ISA", mma.m16n8k16). Where the
text is not compiled for a GPU, ``product_of_warp`` stands for the instruction: a scalar twin, which the emulating
header has.
"""

from __future__ import annotations

from string import Template
from typing import Any, Final

import numpy as np

from mpiparallel.graph.written_kernels.written_text import BFLOAT16

_TEXT: Final = r"""
__device__ __forceinline__ void add_product(float* sum, const unsigned* x, const unsigned* y) {
#ifdef __CUDACC__
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.$kind.$kind.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
#else
    product_of_warp(sum, x, y, from_Stored);
#endif
}
"""


def has_tensor_cores(dtype: np.dtype[Any]) -> bool:
    """Return whether tensor cores multiply numbers of a type and lose nothing."""
    return dtype.name in ("float16", BFLOAT16)


def tensor_product(dtype: np.dtype[Any]) -> str:
    """Return the text of ``add_product`` for a type; nothing where there is none."""
    kind = "bf16" if dtype.name == BFLOAT16 else "f16"
    return Template(_TEXT).substitute(kind=kind) if has_tensor_cores(dtype) else ""
