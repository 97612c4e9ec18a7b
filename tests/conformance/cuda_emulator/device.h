// CUDA texts on a CPU: each thread of a block is a fiber, and blocks run one after the other.
// A launch is repeated with the threads in three orders, in memory of exactly the size of each array.
// What a text calls is here; runtime.cpp, which is compiled once for all texts, has the fibers and the launches.
#include <cmath>
#include <cstring>
#include <utility>

using std::copysign;
using std::exp;
using std::floor;
using std::fmod;
using std::log;

// What emulates is optimized; the texts are not, so that a sanitizer names the line.
#pragma GCC push_options
#pragma GCC optimize("O2")

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

struct Place { unsigned x; };
extern Place threadIdx, blockIdx, blockDim, gridDim;

enum { MOST = 1024 };
struct Barrier { int arrived; unsigned generation; };
extern Barrier warps[MOST / 32];
extern unsigned char lanes[MOST][8];
extern float factors[MOST][12];
void wait(Barrier& barrier, int members);
void __syncthreads();

struct Kernel { void (*call)(void**); bool waits; };
extern const Kernel kernels[];

static float __int_as_float(int bits) { float x; memcpy(&x, &bits, 4); return x; }
static int __float_as_int(float x) { int bits; memcpy(&bits, &x, 4); return bits; }
static double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }

float from_float16(unsigned short bits);
unsigned short to_float16(float x);
void product_of_warp_in_tf32(float* sum, const unsigned* x, const unsigned* y);
void matrices_of_warp(unsigned* found, const unsigned short* row, bool turned);

template <typename T> static T __shfl_xor_sync(unsigned, T value, int distance) {
    const int own = threadIdx.x;
    Barrier& warp = warps[own / 32];
    memcpy(lanes[own], &value, sizeof value);
    wait(warp, 32);
    T other;
    memcpy(&other, lanes[own ^ distance], sizeof other);
    wait(warp, 32);
    return other;
}

// The scalar twin of the tensor cores' product of a warp: each lane reads its own numbers, and then those of all.
template <typename F> static void product_of_warp(float* sum, const unsigned* x, const unsigned* y, F number) {
    const int own = threadIdx.x, base = own / 32 * 32, lane = own % 32;
    Barrier& warp = warps[own / 32];
    for (int at = 0; at < 12; ++at)
        factors[own][at] = number((unsigned short)((at < 8 ? x[at / 2] : y[at / 2 - 4]) >> at % 2 * 16));
    wait(warp, 32);
    for (int at = 0; at < 4; ++at) {
        const int row = lane / 4 + at / 2 * 8, column = lane % 4 * 2 + at % 2;
        for (int k = 0; k < 16; ++k) {
            const float left = factors[base + row % 8 * 4 + k % 8 / 2][(row / 8 + k / 8 * 2) * 2 + k % 2];
            const float right = factors[base + column * 4 + k % 8 / 2][(4 + k / 8) * 2 + k % 2];
            sum[at] += left * right;
        }
    }
    wait(warp, 32);
}

template <typename... A, size_t... I>
static void call_with(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*(A*)arguments[I]...);
}
template <typename... A> static void call_with(void (*kernel)(A...), void** arguments) {
    call_with(kernel, arguments, std::index_sequence_for<A...>());
}
#pragma GCC pop_options
