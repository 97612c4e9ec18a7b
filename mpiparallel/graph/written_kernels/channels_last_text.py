"""The CUDA texts of convolutions of images whose channels are last in memory, by tensor cores.

Each is a product whose rows are gathered from images as they are needed, by 16 bytes of channels: no columns are in
memory. A block loads the next part of both factors into registers while it multiplies this one.
"""

from __future__ import annotations

from typing import Final

NUMBERS: Final = r"""
    int images, int depth, int outputs, int source_height, int source_width, int height, int width,
    int top, int left"""

_COMMON: Final = r"""
$element
$tensor_product
enum {
    DOWN = $down, ACROSS = $across, TAPS = DOWN * ACROSS, STEP_DOWN = $step_down, STEP_ACROSS = $step_across,
    APART_DOWN = $apart_down, APART_ACROSS = $apart_across, WIDE = $wide, DEPTH = 4 * LOAD
};
typedef Vector<unsigned, 4> Words;

// The pixel that a place in the window of an output is, or -1 in the padding.
__device__ __forceinline__ int seen(int y, int x, int tap, int height, int width, int top, int left) {
    const int row = y * STEP_DOWN + tap / ACROSS * APART_DOWN - top;
    const int column = x * STEP_ACROSS + tap % ACROSS * APART_ACROSS - left;
    return row >= 0 && row < height && column >= 0 && column < width ? row * width + column : -1;
}
// The output that a pixel went into by a place in its window, or -1 where there is none.
__device__ __forceinline__ int given(int y, int x, int tap, int height, int width, int top, int left) {
    const int down = y + top - tap / ACROSS * APART_DOWN, across = x + left - tap % ACROSS * APART_ACROSS;
    if (down < 0 || across < 0 || down % STEP_DOWN || across % STEP_ACROSS) return -1;
    const int row = down / STEP_DOWN, column = across / STEP_ACROSS;
    return row < height && column < width ? row * width + column : -1;
}
"""

_GATHERED: Final = (
    _COMMON
    + r"""
enum { ROWS = 128, PITCH = DEPTH + LOAD, OWN = WIDE / 16 };

KERNEL(
    const Stored* __restrict__ source, const Stored* __restrict__ weight, Stored* __restrict__ target,"""
    + NUMBERS
    + r""") {
    __shared__ Words rows_tile[ROWS * PITCH / LOAD], weights_tile[WIDE * PITCH / LOAD];
    const int blocks = (outputs + WIDE - 1) / WIDE;
    const int first = blockIdx.x / blocks * ROWS, start = blockIdx.x % blocks * WIDE;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = threadIdx.x % 4 * LOAD;
    const int count = images * height * width, chunks = (depth + DEPTH - 1) / DEPTH;
    Stored *rows = (Stored*)rows_tile, *weights = (Stored*)weights_tile;
    int y[2], x[2];
    const Stored* image[2];
    for (int i = 0; i < 2; ++i) {
        const int place = first + threadIdx.x / 4 + 64 * i;
        y[i] = place / width % height;
        x[i] = place % width;
        const long long before = (long long)(place / (height * width)) * source_height * source_width;
        image[i] = place < count ? source + before * depth : 0;
    }
    Words next[2], next_weights[WIDE / 64];
    float sum[2][OWN][4] = {};
    for (int step = 0; step <= TAPS * chunks; ++step) {
        if (step) {
            __syncthreads();
            for (int i = 0; i < 2; ++i) *(Words*)(rows + (threadIdx.x / 4 + 64 * i) * PITCH + part) = rounded(next[i]);
            for (int i = 0; i < WIDE / 64; ++i)
                *(Words*)(weights + (threadIdx.x / 4 + 64 * i) * PITCH + part) = rounded(next_weights[i]);
            __syncthreads();
        }
        if (step < TAPS * chunks) {
            const int tap = step / chunks, channel = step % chunks * DEPTH + part;
            for (int i = 0; i < 2; ++i) {
                next[i] = Words();
                const int pixel = $gather(y[i], x[i], tap, source_height, source_width, top, left);
                if (image[i] && pixel >= 0 && channel < depth)
                    next[i] = *(const Words*)(image[i] + (long long)pixel * depth + channel);
            }
            for (int i = 0; i < WIDE / 64; ++i) {
                const int output = start + threadIdx.x / 4 + 64 * i;
                next_weights[i] = Words();
                if (output < outputs && channel < depth)
                    next_weights[i] = *(const Words*)(weight + ((long long)output * TAPS + tap) * depth + channel);
            }
        }
        if (!step) continue;
#pragma unroll
        for (int k = 0; k < DEPTH; k += AT_ONCE) {
            unsigned own[2][4], other[4];
            for (int i = 0; i < 2; ++i) {
                const int row = warp / 2 * 32 + i * 16 + lane % 16;
                load_matrices(own[i], rows + row * PITCH + k + lane / 16 * LOAD, false);
            }
#pragma unroll
            for (int j = 0; j < OWN; j += 2) {
                const int row = warp % 2 * (WIDE / 2) + j * 8 + lane / 16 * 8 + lane % 8;
                load_matrices(other, weights + row * PITCH + k + lane / 8 % 2 * LOAD, false);
                for (int i = 0; i < 2; ++i) {
                    add_product(sum[i][j], own[i], other);
                    add_product(sum[i][j + 1], own[i], other + 2);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int place = first + warp / 2 * 32 + i * 16 + half * 8 + lane / 4;
            if (place >= count) continue;
#pragma unroll
            for (int j = 0; j < OWN; ++j) {
                const int output = start + warp % 2 * (WIDE / 2) + j * 8 + lane % 4 * 2;
                if (output < outputs)
                    store_pair(
                        target + (long long)place * outputs + output, sum[i][j][2 * half], sum[i][j][2 * half + 1]);
            }
        }
}
"""
)

FORWARD: Final = _GATHERED.replace("$gather", "seen")
INPUT_GRADIENT: Final = _GATHERED.replace("$gather", "given")

WEIGHT_GRADIENT: Final = (
    _COMMON
    + r"""
enum { ROWS = 64, LINE = ROWS / LOAD, LEFT_PITCH = ROWS + 8, PITCH = WIDE + 8, OWN = WIDE / 32 };

KERNEL(
    const Stored* __restrict__ gradient, const Stored* __restrict__ source, float* __restrict__ parts,"""
    + NUMBERS
    + r""", int share) {
    __shared__ Words left_tile[DEPTH * LEFT_PITCH / LOAD], right_tile[DEPTH * PITCH / LOAD];
    const int blocks_across = (depth + WIDE - 1) / WIDE, blocks_down = (outputs + ROWS - 1) / ROWS;
    const int start = blockIdx.x % blocks_across * WIDE, first = blockIdx.x / blocks_across % blocks_down * ROWS;
    const int tap = blockIdx.x / (blocks_across * blocks_down) % TAPS;
    const int chunk = blockIdx.x / (blocks_across * blocks_down * TAPS);
    const int count = images * height * width, from = chunk * share, to = from + share < count ? from + share : count;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int line = threadIdx.x / LINE, part = threadIdx.x % LINE * LOAD;
    Stored *left_rows = (Stored*)left_tile, *right_rows = (Stored*)right_tile;
    Words next_left, next[WIDE / 64];
    float sum[2][OWN][4] = {};
    for (int begin = from - DEPTH; begin < to; begin += DEPTH) {
        if (begin >= from) {
            __syncthreads();
            *(Words*)(left_rows + line * LEFT_PITCH + part) = rounded(next_left);
            for (int i = 0; i < WIDE / 64; ++i) *(Words*)(right_rows + line * PITCH + part + 64 * i) = rounded(next[i]);
            __syncthreads();
        }
        const int place = begin + DEPTH + line;
        next_left = Words();
        for (int i = 0; i < WIDE / 64; ++i) next[i] = Words();
        if (place < to) {
            if (first + part < outputs)
                next_left = *(const Words*)(gradient + (long long)place * outputs + first + part);
            const int pixel = seen(place / width % height, place % width, tap, source_height, source_width, top, left);
            const long long image = (long long)(place / (height * width)) * source_height * source_width;
            for (int i = 0; i < WIDE / 64; ++i)
                if (pixel >= 0 && start + part + 64 * i < depth)
                    next[i] = *(const Words*)(source + (image + pixel) * depth + start + part + 64 * i);
        }
        if (begin < from) continue;
#pragma unroll
        for (int k = 0; k < DEPTH; k += AT_ONCE) {
            unsigned own[2][4], other[4];
            for (int i = 0; i < 2; ++i)
                load_first<LEFT_PITCH>(own[i], left_rows + k * LEFT_PITCH + warp / 4 * 32 + i * 16, lane);
#pragma unroll
            for (int j = 0; j < OWN; j += 2) {
                load_second<PITCH>(other, right_rows + k * PITCH + warp % 4 * (WIDE / 4) + j * 8, lane);
                for (int i = 0; i < 2; ++i) {
                    add_product(sum[i][j], own[i], other);
                    add_product(sum[i][j + 1], own[i], other + 2);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < OWN; ++j)
#pragma unroll
            for (int at = 0; at < 4; ++at) {
                const int output = first + warp / 4 * 32 + i * 16 + at / 2 * 8 + lane / 4;
                const int channel = start + warp % 4 * (WIDE / 4) + j * 8 + lane % 4 * 2 + at % 2;
                if (output < outputs && channel < depth)
                    parts[(((long long)chunk * outputs + output) * TAPS + tap) * depth + channel] = sum[i][j][at];
            }
}
"""
)
