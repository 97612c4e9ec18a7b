"""The CUDA texts of convolutions: a product of matrices of which one is gathered from images as it is needed.

Tiles of both are in shared memory, a tile of the product in registers. The sums of an element go in one order. Numbers
of 16 bits, and those of float32 that may be rounded to TF32, are multiplied by tensor cores and added up in float32.
"""

from __future__ import annotations

from typing import Final

NUMBERS: Final = r"""
    int images, int groups, int inputs, int outputs, int height, int width, int high, int wide,
    int top, int left"""
"""``inputs`` and ``outputs`` are channels of a group; images are height x width, outputs of windows high x wide."""

_TYPES: Final = r"""
$element
$tensor_product
enum {
    DOWN = $down, ACROSS = $across, TAPS = DOWN * ACROSS, STEP_DOWN = $step_down, STEP_ACROSS = $step_across,
    APART_DOWN = $apart_down, APART_ACROSS = $apart_across, TILE = $tile, DEPTH = $depth, OWN = TILE / 16
};
"""

_GATHERS: Final = r"""
// The element of an image that a place in the window of an output is; 0 in the padding.
__device__ __forceinline__ Wide seen(
    const Stored* image, int height, int width, int row, int column, int tap, int top, int left) {
    const int y = row * STEP_DOWN + tap / ACROSS * APART_DOWN - top;
    const int x = column * STEP_ACROSS + tap % ACROSS * APART_ACROSS - left;
    return y >= 0 && y < height && x >= 0 && x < width ? from_Stored(image[(long long)y * width + x]) : 0;
}
// The output that an element of an image went into by a place in its window; 0 where there is none.
__device__ __forceinline__ Wide given(
    const Stored* image, int high, int wide, int y, int x, int tap, int top, int left) {
    const int down = y + top - tap / ACROSS * APART_DOWN, across = x + left - tap % ACROSS * APART_ACROSS;
    if (down < 0 || across < 0 || down % STEP_DOWN || across % STEP_ACROSS) return 0;
    const int row = down / STEP_DOWN, column = across / STEP_ACROSS;
    return row < high && column < wide ? from_Stored(image[(long long)row * wide + column]) : 0;
}
"""

_HEAD: Final = r"""
    const int group = blockIdx.x / (blocks_down * blocks_across) % groups;
    const int first = blockIdx.x / blocks_across % blocks_down * TILE, start = blockIdx.x % blocks_across * TILE;
"""

_PRODUCT: Final = r"""
    __shared__ Wide left_tile[DEPTH][TILE + 1], right_tile[DEPTH][TILE + 1];
    const int own_row = threadIdx.x / 16, own_column = threadIdx.x % 16;
    Wide sum[OWN][OWN] = {};
    for (int begin = from; begin < to; begin += DEPTH) {
        for (int at = threadIdx.x; at < TILE * DEPTH; at += $threads) {
            const int line = at / DEPTH, k = begin + at % DEPTH;
            Wide value = 0;
            if (first + line < rows && k < to) { $left }
            left_tile[at % DEPTH][line] = value;
        }
        for (int at = threadIdx.x; at < TILE * DEPTH; at += $threads) {
            const int line = at % TILE, k = begin + at / TILE;
            Wide value = 0;
            if (start + line < columns && k < to) { $right }
            right_tile[at / TILE][line] = value;
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k)
#pragma unroll
            for (int i = 0; i < OWN; ++i)
#pragma unroll
                for (int j = 0; j < OWN; ++j)
                    sum[i][j] += left_tile[k][own_row + 16 * i] * right_tile[k][own_column + 16 * j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i)
#pragma unroll
        for (int j = 0; j < OWN; ++j) {
            const int line = first + own_row + 16 * i, place = start + own_column + 16 * j;
            const Wide result = sum[i][j];
            if (line < rows && place < columns) { $store }
        }
"""

_TENSOR_PRODUCT: Final = r"""
    alignas(16) __shared__ Stored left_tile[TILE][DEPTH + 4 * PER_WORD], right_tile[TILE][DEPTH + 4 * PER_WORD];
    const int warp = threadIdx.x / 32, across = threadIdx.x % 32 / 4, own_word = threadIdx.x % 4;
    const int own_row = warp % 4 * 16 + across, own_column = warp / 4 * 32;
    float sum[4][4] = {};
    for (int begin = from; begin < to; begin += DEPTH) {
        for (int at = threadIdx.x; at < TILE * DEPTH; at += $threads) {
            const int line = at / DEPTH, k = begin + at % DEPTH;
            Wide value = 0;
            if (first + line < rows && k < to) { $left }
            left_tile[line][at % DEPTH] = to_factor(value);
        }
        for (int at = threadIdx.x; at < TILE * DEPTH; at += $threads) {
            const int line = at % TILE, k = begin + at / TILE;
            Wide value = 0;
            if (start + line < columns && k < to) { $right }
            right_tile[line][at / TILE] = to_factor(value);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k += AT_ONCE) {
            unsigned lines[4], places[2];
            for (int part = 0; part < 4; ++part) {
                const Stored* line = left_tile[own_row + part % 2 * 8];
                lines[part] = *(const unsigned*)(line + k + (own_word + part / 2 * 4) * PER_WORD);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const Stored* column = &right_tile[own_column + 8 * j + across][k + own_word * PER_WORD];
                for (int part = 0; part < 2; ++part) places[part] = *(const unsigned*)(column + part * 4 * PER_WORD);
                add_product(sum[j], lines, places);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int line = first + own_row + i / 2 * 8, place = start + own_column + 8 * j + own_word * 2 + i % 2;
            const Wide result = sum[j][i];
            if (line < rows && place < columns) { $store }
        }
"""

_BLOCKS: Final = "    const int blocks_down = (rows + TILE - 1) / TILE, blocks_across = (columns + TILE - 1) / TILE;\n"


def _product(left: str, right: str, store: str) -> str:
    filled = [
        text.replace("$left", left).replace("$right", right).replace("$store", store)
        for text in (_TENSOR_PRODUCT, _PRODUCT)
    ]
    return f"{_BLOCKS}{_HEAD}#if $has_tensor_cores\n{filled[0]}#else\n{filled[1]}#endif\n"


FORWARD: Final = (
    _TYPES
    + _GATHERS
    + "KERNEL(const Stored* __restrict__ x, const Stored* __restrict__ weight, Stored* __restrict__ y,"
    + NUMBERS
    + ") {\n    const int rows = outputs, columns = images * high * wide, from = 0, to = inputs * TAPS;\n"
    + _product(
        "value = from_Stored(weight[((long long)group * outputs + first + line) * to + k]);",
        """const int window = start + line, image = window / (high * wide), place = window % (high * wide);
                const Stored* plane = x + ((long long)(image * groups + group) * inputs + k / TAPS) * height * width;
                value = seen(plane, height, width, place / wide, place % wide, k % TAPS, top, left);""",
        """const int image = place / (high * wide);
                y[((long long)(image * groups + group) * outputs + line) * high * wide + place % (high * wide)] =
                    to_Stored(result);""",
    )
    + "}\n"
)

INPUT_GRADIENT: Final = (
    _TYPES
    + _GATHERS
    + "KERNEL(const Stored* __restrict__ dy, const Stored* __restrict__ weight, Stored* __restrict__ dx,"
    + NUMBERS
    + ") {\n    const int rows = inputs, columns = images * height * width, from = 0, to = outputs * TAPS;\n"
    + _product(
        """const long long row = (long long)group * outputs + k / TAPS;
                value = from_Stored(weight[(row * inputs + first + line) * TAPS + k % TAPS]);""",
        """const int pixel = start + line, image = pixel / (height * width), place = pixel % (height * width);
                const Stored* plane = dy + ((long long)(image * groups + group) * outputs + k / TAPS) * high * wide;
                value = given(plane, high, wide, place / width, place % width, k % TAPS, top, left);""",
        """const int image = place / (height * width);
                dx[((long long)(image * groups + group) * inputs + line) * height * width + place % (height * width)] =
                    to_Stored(result);""",
    )
    + "}\n"
)

WEIGHT_GRADIENT: Final = (
    _TYPES
    + _GATHERS
    + "KERNEL(const Stored* __restrict__ dy, const Stored* __restrict__ x, Wide* __restrict__ parts,"
    + NUMBERS
    + r""", int share) {
    const int rows = outputs, columns = inputs * TAPS, windows = images * high * wide;
    const int chunk = blockIdx.x / (groups * ((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE));
    const int from = chunk * share, to = from + share < windows ? from + share : windows;
"""
    + _product(
        """const int image = k / (high * wide), place = k % (high * wide);
                const long long plane = (long long)(image * groups + group) * outputs + first + line;
                value = from_Stored(dy[plane * high * wide + place]);""",
        """const int image = k / (high * wide), place = k % (high * wide), column = start + line;
                const long long channel = (long long)(image * groups + group) * inputs + column / TAPS;
                const Stored* plane = x + channel * height * width;
                value = seen(plane, height, width, place / wide, place % wide, column % TAPS, top, left);""",
        "parts[(((long long)chunk * groups + group) * rows + line) * columns + place] = result;",
    )
    + "}\n"
)

DEPTHWISE: Final = (
    _TYPES
    + _GATHERS
    + "KERNEL(const Stored* __restrict__ x, const Stored* __restrict__ weight, Stored* __restrict__ y,"
    + NUMBERS
    + r""") {
    const long long count = (long long)images * groups * outputs * high * wide;
    const long long stride = (long long)gridDim.x * $threads;
    for (long long at = (long long)blockIdx.x * $threads + threadIdx.x; at < count; at += stride) {
        const int place = at % (high * wide);
        const long long plane = at / (high * wide), channel = plane % (groups * outputs);
        const Stored* image = x + plane / outputs * height * width;
        Wide sum = 0;
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap)
            sum += from_Stored(weight[channel * TAPS + tap])
                   * seen(image, height, width, place / wide, place % wide, tap, top, left);
        y[at] = to_Stored(sum);
    }
}
"""
)

DEPTHWISE_INPUT: Final = (
    _TYPES
    + _GATHERS
    + "KERNEL(const Stored* __restrict__ dy, const Stored* __restrict__ weight, Stored* __restrict__ dx,"
    + NUMBERS
    + r""") {
    const long long count = (long long)images * groups * height * width;
    const long long stride = (long long)gridDim.x * $threads;
    for (long long at = (long long)blockIdx.x * $threads + threadIdx.x; at < count; at += stride) {
        const int place = at % (height * width);
        const long long plane = at / (height * width), channel = plane % groups * outputs;
        Wide sum = 0;
        for (int output = 0; output < outputs; ++output) {
            const Stored* image = dy + (plane * outputs + output) * high * wide;
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap)
                sum += from_Stored(weight[(channel + output) * TAPS + tap])
                       * given(image, high, wide, place / width, place % width, tap, top, left);
        }
        dx[at] = to_Stored(sum);
    }
}
"""
)

DEPTHWISE_WEIGHT: Final = (
    _TYPES
    + _GATHERS
    + "KERNEL(const Stored* __restrict__ dy, const Stored* __restrict__ x, Stored* __restrict__ dw,"
    + NUMBERS
    + r""") {
    const int channel = blockIdx.x / TAPS, tap = blockIdx.x % TAPS;
    const long long count = (long long)images * high * wide;
    Wide sum = 0;
    for (long long at = threadIdx.x; at < count; at += $threads) {
        const int place = at % (high * wide);
        const long long image = at / (high * wide);
        const Stored* plane = x + (image * groups + channel / outputs) * height * width;
        sum += from_Stored(dy[(image * groups * outputs + channel) * high * wide + place])
               * seen(plane, height, width, place / wide, place % wide, tap, top, left);
    }
    sum = over_block<Sum, $threads, Wide>(sum, 0);
    if (threadIdx.x == 0) dw[blockIdx.x] = to_Stored(sum);
}
"""
)
