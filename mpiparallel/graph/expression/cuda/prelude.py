"""What the CUDA texts of terms call: plain C++ without a header of CUDA's, which would cost seconds to compile."""

from __future__ import annotations

from typing import Final

PRELUDE: Final = r"""
template <typename T, int N> struct alignas(sizeof(T) * N) Vector { T e[N]; };

#ifdef __CUDACC__
__device__ __forceinline__ float from_float16(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
__device__ __forceinline__ unsigned short to_float16(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif

__device__ __forceinline__ float from_bfloat16(unsigned short bits) { return __int_as_float((int)bits << 16); }
__device__ __forceinline__ unsigned short to_bfloat16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const unsigned bits = __float_as_int(x);
    return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
}

template <typename T> __device__ __forceinline__ T maximum(T x, T y) { return x != x || x > y ? x : y; }
template <typename T> __device__ __forceinline__ T minimum(T x, T y) { return x != x || x < y ? x : y; }

template <typename T> __device__ __forceinline__ T floored_remainder(T x, T y) {
    T rest = fmod(x, y);
    if (y == T(0)) return rest;
    if (rest == T(0)) return copysign(T(0), y);
    return (y < T(0)) != (rest < T(0)) ? rest + y : rest;
}

template <typename T> __device__ __forceinline__ T floored_quotient(T x, T y) {
    if (y == T(0)) return x / y;
    T rest = fmod(x, y), quotient = (x - rest) / y;
    if (rest != T(0) && (y < T(0)) != (rest < T(0))) quotient -= T(1);
    if (quotient == T(0)) return copysign(T(0), x / y);
    T whole = floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
}

struct Sum { template <typename T> __device__ __forceinline__ static T of(T x, T y) { return x + y; } };
struct Max { template <typename T> __device__ __forceinline__ static T of(T x, T y) { return maximum(x, y); } };

template <typename F, typename T> __device__ __forceinline__ T over_warp(T x) {
#pragma unroll
    for (int distance = 16; distance; distance /= 2) x = F::of(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}

template <typename F, int LANES, typename T> __device__ __forceinline__ T over_block(T x, T none) {
    __shared__ T cells[LANES / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = over_warp<F>(x);
    __syncthreads();
    if (lane == 0) cells[warp] = x;
    __syncthreads();
    return over_warp<F>(lane < LANES / 32 ? cells[lane] : none);
}
"""
"""Each function is the same for all threads of a team: sums go over a fixed tree, so their bits repeat."""
