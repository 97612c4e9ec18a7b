"""Products by tensor cores, by a warp's lanes.

The product of 16 lines x 32 bytes by 32 bytes x 8 columns is added to 16 x 8 of float32.

The 32 bytes are 16 numbers of 16 bits, or 8 of float32, which are rounded to TF32 (10 bits of fraction) before. In
words of 4 bytes both lie alike. Of the first matrix lane 4 g + t has words t and t + 4 of rows g and g + 8. Of the
second it has those of column g. Of the sum it has columns 2 t and 2 t + 1 of rows g and g + 8. So NVIDIA describes
mma.m16n8k16 and mma.m16n8k8 in "PTX ISA". Where the text is not compiled for a GPU, ``product_of_warp`` stands for the
instruction: a scalar twin, which the emulating header has. ``load_matrices`` gives a warp four matrices of 8 rows of 16
bytes from shared memory (ldmatrix). Lanes 8 i to 8 i + 7 name the rows of matrix i. Of each matrix lane 4 g + t gets
word t of row g. Where they are ``turned``, which is for 16 bits alone, it gets numbers 2 t and 2 t + 1 of column g.
``load_first`` and ``load_second`` give it 16 columns of a matrix that is stored transposed, as a first matrix, or as
two second ones.
"""

from __future__ import annotations

from string import Template
from typing import Any, Final

import numpy as np

from mpiparallel.graph.written_kernels.written_text import BFLOAT16

_PRODUCT: Final = r"""
__device__ __forceinline__ void add_product(float* sum, const unsigned* x, const unsigned* y) {
#ifdef __CUDACC__
    asm volatile(
        "mma.sync.aligned.$size.row.col.f32.$kind.$kind.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
#else
    $twin;
#endif
}

__device__ __forceinline__ void load_matrices(unsigned* found, const Stored* row, bool turned) {
#ifdef __CUDACC__
    unsigned long long place;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(place) : "l"(row));
    if (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3])
                     : "r"((unsigned)place) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3])
                     : "r"((unsigned)place) : "memory");
#else
    matrices_of_warp(found, (const unsigned short*)row, turned);
#endif
}
"""

_OF_16_BITS: Final = r"""
enum { LOAD = 8, PER_WORD = 2, AT_ONCE = 16 };

template <int PITCH> __device__ __forceinline__ void load_first(unsigned* found, const Stored* rows, int lane) {
    load_matrices(found, rows + (lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 8, true);
}
template <int PITCH> __device__ __forceinline__ void load_second(unsigned* found, const Stored* rows, int lane) {
    load_matrices(found, rows + lane % 16 * PITCH + lane / 16 * 8, true);
}
__device__ __forceinline__ Vector<unsigned, 4> rounded(const Vector<unsigned, 4>& words) { return words; }
__device__ __forceinline__ Stored to_factor(float x) { return to_Stored(x); }
__device__ __forceinline__ void store_pair(Stored* target, float low, float high) {
    *(unsigned*)target = (unsigned)to_Stored(low) | (unsigned)to_Stored(high) << 16;
}
"""

_OF_TF32: Final = r"""
enum { LOAD = 4, PER_WORD = 1, AT_ONCE = 8 };

// To the nearest of 10 bits of fraction, halves away from 0.
__device__ __forceinline__ unsigned to_tf32(unsigned bits) {
#ifdef __CUDACC__
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__int_as_float(bits)));
    return bits;
#else
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : (bits + 0x1000) & ~0x1fffu;
#endif
}
template <int PITCH> __device__ __forceinline__ void load_first(unsigned* found, const Stored* rows, int lane) {
#pragma unroll
    for (int part = 0; part < 4; ++part)
        found[part] = __float_as_int(rows[(lane % 4 + part / 2 * 4) * PITCH + lane / 4 + part % 2 * 8]);
}
template <int PITCH> __device__ __forceinline__ void load_second(unsigned* found, const Stored* rows, int lane) {
#pragma unroll
    for (int part = 0; part < 4; ++part)
        found[part] = __float_as_int(rows[(lane % 4 + part % 2 * 4) * PITCH + lane / 4 + part / 2 * 8]);
}
__device__ __forceinline__ Vector<unsigned, 4> rounded(Vector<unsigned, 4> words) {
#pragma unroll
    for (int at = 0; at < 4; ++at) words.e[at] = to_tf32(words.e[at]);
    return words;
}
__device__ __forceinline__ Stored to_factor(float x) { return __int_as_float(to_tf32(__float_as_int(x))); }
__device__ __forceinline__ void store_pair(Stored* target, float low, float high) {
    Vector<float, 2> pair;
    pair.e[0] = low;
    pair.e[1] = high;
    *(Vector<float, 2>*)target = pair;
}
"""


def has_tensor_cores(dtype: np.dtype[Any], allows_tf32: bool = False) -> bool:
    """Return whether tensor cores multiply numbers of a type: of 16 bits without loss, of float32 where it is allowed.

    >>> [has_tensor_cores(np.dtype(name), allows) for name in ("float16", "float32") for allows in (False, True)]
    [True, True, False, True]
    """
    return dtype.name in ("float16", BFLOAT16) or (allows_tf32 and dtype.name == "float32")


def tensor_product(dtype: np.dtype[Any], allows_tf32: bool = False) -> str:
    """Return the text of ``add_product`` and of what goes with it for a type; nothing where there is none."""
    if not has_tensor_cores(dtype, allows_tf32):
        return ""
    if dtype.name == "float32":
        names, more = {"size": "m16n8k8", "kind": "tf32", "twin": "product_of_warp_in_tf32(sum, x, y)"}, _OF_TF32
    else:
        kind = "bf16" if dtype.name == BFLOAT16 else "f16"
        names = {"size": "m16n8k16", "kind": kind, "twin": "product_of_warp(sum, x, y, from_Stored)"}
        more = _OF_16_BITS
    return Template(_PRODUCT).substitute(names) + more
