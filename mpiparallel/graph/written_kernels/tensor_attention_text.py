"""The CUDA texts of attention in blocks for floats of 16 bits: products by tensor cores, sums in float32.

A block has four warps, and each warp 16 rows: queries, or for the gradients of keys and values keys. It passes over the
others by $span at a time, which lie in shared memory. A lane has of its warp's scores what ``add_product`` gives it:
two rows, and two columns of every eight. So weights can be multiplied again as they are. Nothing is added atomically
(after Dao, "FlashAttention-2", 2023). Where attention is causal, a block passes over those alone of which something is
seen, and a warp leaves out others of these. Scores are looked at one by one only where not all of a tile are seen.
"""

from __future__ import annotations

from typing import Final

from mpiparallel.graph.written_kernels.attention_text import ARGUMENTS, GIVEN, NUMBERS

COMMON: Final = r"""
$element
$mixed
$tensor_product
enum { ROWS = $threads / 2, SPAN = $span, DEPTH = $depth, PITCH = DEPTH + 8, STEPS = DEPTH / 16 };
typedef Vector<unsigned, 4> Words;

// Rows of a tensor in shared memory, by 16 bytes; those beyond its last one are 0.
template <int COUNT> __device__ __forceinline__ void load_rows(
    Stored* tile, const Stored* rows, long long first, long long count) {
    for (int at = threadIdx.x; at < COUNT * (DEPTH / 8); at += $threads) {
        const int row = at / (DEPTH / 8), place = at % (DEPTH / 8) * 8;
        Words words = {};
        if (first + row < count) words = *(const Words*)(rows + (first + row) * DEPTH + place);
        *(Words*)(tile + row * PITCH + place) = words;
    }
}

// The 16 rows of a warp, as first matrices of products.
__device__ __forceinline__ void load_own(
    unsigned (*own)[4], const Stored* rows, long long first, long long count, int lane) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            const long long row = first + lane / 4 + part % 2 * 8;
            const int place = step * 16 + lane % 4 * 2 + part / 2 * 8;
            own[step][part] = row < count ? *(const unsigned*)(rows + row * DEPTH + place) : 0;
        }
}

// sum += own rows x the rows of a tile, transposed.
__device__ __forceinline__ void add_scores(
    float (*sum)[4], const unsigned (*own)[4], const Stored* tile, int lane) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
        for (int pair = 0; pair < SPAN / 16; ++pair) {
            unsigned other[4];
            const int row = pair * 16 + lane / 16 * 8 + lane % 8;
            load_matrices(other, tile + row * PITCH + step * 16 + lane / 8 % 2 * 8, false);
            add_product(sum[2 * pair], own[step], other);
            add_product(sum[2 * pair + 1], own[step], other + 2);
        }
}

__device__ __forceinline__ unsigned packed(float low, float high) {
    return (unsigned)to_Stored(low) | (unsigned)to_Stored(high) << 16;
}

// sum += weights of the own rows x the rows of a tile.
__device__ __forceinline__ void add_weighted(
    float (*sum)[4], const float (*weights)[4], const Stored* tile, int lane) {
#pragma unroll
    for (int pair = 0; pair < SPAN / 16; ++pair) {
        const float *left = weights[2 * pair], *right = weights[2 * pair + 1];
        const unsigned own[4] = {
            packed(left[0], left[1]), packed(left[2], left[3]), packed(right[0], right[1]), packed(right[2], right[3])};
#pragma unroll
        for (int place = 0; place < STEPS; ++place) {
            unsigned other[4];
            const int row = pair * 16 + lane % 16;
            load_matrices(other, tile + row * PITCH + place * 16 + lane / 16 * 8, true);
            add_product(sum[2 * place], own, other);
            add_product(sum[2 * place + 1], own, other + 2);
        }
    }
}

// The two lines of a warp's sums that a lane has a part of.
__device__ __forceinline__ void store_own(
    Stored* rows, long long first, long long count, const float (*sum)[4], const float* factors, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const long long row = first + lane / 4 + half * 8;
        if (row >= count) continue;
#pragma unroll
        for (int place = 0; place < DEPTH / 8; ++place)
            *(unsigned*)(rows + row * DEPTH + place * 8 + lane % 4 * 2) =
                packed(sum[place][2 * half] * factors[half], sum[place][2 * half + 1] * factors[half]);
    }
}
"""

_PLACE: Final = r"""
    const long long tiles = ($rows + ROWS - 1) / ROWS, pair = blockIdx.x / tiles;
    const long long batch = pair / heads, head = pair % heads;
    const int lane = threadIdx.x % 32;
    const long long block_first = blockIdx.x % tiles * ROWS, first = block_first + threadIdx.x / 32 * 16;
    $mask_place
    const unsigned long long own_key = *drawn;
    const unsigned long long whole =
        ((first_batch + batch) * all_heads + first_head + head) * all_queries + first_query;
    const float none = -__int_as_float(0x7f800000);
"""

_SEEN_KEYS: Final = r"""
    const long long beyond = first_query + block_first + ROWS, seen = $causal && beyond < keys ? beyond : keys;
"""

_SEEING_QUERIES: Final = r"""
    const long long before = $causal && block_first > first_query ? (block_first - first_query) / SPAN * SPAN : 0;
"""

_SCORES: Final = r"""
        const bool are_all_seen = $causal && $first_query + $queries_of_tile <= queries
                                  && $first_key + $keys_of_tile <= keys
                                  && $first_key + $keys_of_tile <= first_query + $first_query + 1;
#pragma unroll
        for (int column = 0; column < SPAN / 8; ++column)
#pragma unroll
            for (int at = 0; at < 4; ++at) {
                const long long own_place = first + lane / 4 + at / 2 * 8;
                const long long other_place = start + column * 8 + lane % 4 * 2 + at % 2;
                const long long query_place = $query_place, key_place = $key_place;
                float& score = scores[column][at];
                const bool is_seen = are_all_seen
                                     || (query_place < queries && key_place < keys
                                         && (!$causal || key_place <= first_query + query_place));
                score = is_seen ? score * (float)scale $mask_added : none;
"""

_NOTHING_SEEN: Final = r"""
        if ($causal && $first_key > first_query + $first_query + $queries_of_tile - 1) continue;
"""

_BY_QUERIES: Final = {
    "$query_place": "own_place",
    "$key_place": "other_place",
    "$first_query": "first",
    "$first_key": "start",
    "$queries_of_tile": "16",
    "$keys_of_tile": "SPAN",
}
_BY_KEYS: Final = {
    "$query_place": "other_place",
    "$key_place": "own_place",
    "$first_query": "start",
    "$first_key": "first",
    "$queries_of_tile": "SPAN",
    "$keys_of_tile": "16",
}


def _replaced(text: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        text = text.replace(name, other)
    return text


FORWARD: Final = (
    COMMON
    + "KERNEL("
    + ARGUMENTS
    + "\n    Stored* __restrict__ output, Wide* __restrict__ sums,"
    + NUMBERS
    + r""") {
    __shared__ Words tile_key[SPAN * PITCH / 8], tile_value[SPAN * PITCH / 8];"""
    + _PLACE.replace("$rows", "queries")
    + _SEEN_KEYS
    + r"""
    unsigned own[STEPS][4];
    load_own(own, query + pair * queries * DEPTH, first, queries, lane);
    float largest[2] = {none, none}, total[2] = {}, sum[DEPTH / 8][4] = {};
    for (long long start = 0; start < seen; start += SPAN) {
        __syncthreads();
        load_rows<SPAN>((Stored*)tile_key, key + pair * keys * DEPTH, start, keys);
        load_rows<SPAN>((Stored*)tile_value, value + pair * keys * DEPTH, start, keys);
        __syncthreads();"""
    + _replaced(_NOTHING_SEEN, _BY_QUERIES)
    + r"""
        float scores[SPAN / 8][4] = {}, next[2] = {largest[0], largest[1]};
        add_scores(scores, own, (const Stored*)tile_key, lane);"""
    + _replaced(_SCORES, _BY_QUERIES)
    + r"""
                next[at / 2] = maximum(next[at / 2], score);
            }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            next[half] = maximum(next[half], __shfl_xor_sync(0xffffffffu, next[half], 1));
            next[half] = maximum(next[half], __shfl_xor_sync(0xffffffffu, next[half], 2));
            const float factor = largest[half] == next[half] ? 1 : exp(largest[half] - next[half]);
            largest[half] = next[half];
            total[half] *= factor;
#pragma unroll
            for (int place = 0; place < DEPTH / 8; ++place) {
                sum[place][2 * half] *= factor;
                sum[place][2 * half + 1] *= factor;
            }
        }
#pragma unroll
        for (int column = 0; column < SPAN / 8; ++column)
#pragma unroll
            for (int at = 0; at < 4; ++at) {
                const long long query_place = first + lane / 4 + at / 2 * 8;
                const long long key_place = start + column * 8 + lane % 4 * 2 + at % 2;
                float& score = scores[column][at];
                const float weight = score == none ? 0 : exp(score - largest[at / 2]);
                total[at / 2] += weight;
                const bool kept = !$drops || is_kept(own_key, (whole + query_place) * keys + key_place, limit);
                score = kept ? weight * (float)kept_scale : 0;
            }
        add_weighted(sum, scores, (const Stored*)tile_value, lane);
    }
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        total[half] += __shfl_xor_sync(0xffffffffu, total[half], 1);
        total[half] += __shfl_xor_sync(0xffffffffu, total[half], 2);
        factors[half] = 1 / total[half];
        const long long row = first + lane / 4 + half * 8;
        if (row < queries && lane % 4 == 0) sums[pair * queries + row] = largest[half] + log(total[half]);
    }
    store_own(output + pair * queries * DEPTH, first, queries, sum, factors, lane);
}
"""
)

_SLOPES: Final = r"""
                const long long row = pair * queries + query_place;
                const float weight = score == none ? 0 : exp(score - sums[row]);
                const bool kept = !$drops || is_kept(own_key, (whole + query_place) * keys + key_place, limit);
                slopes[column][at] = score == none ? 0
                    : weight * ((kept ? slopes[column][at] * (float)kept_scale : 0) - products[row]);
"""

QUERY_GRADIENT: Final = (
    COMMON
    + "KERNEL("
    + ARGUMENTS
    + GIVEN
    + "\n    Stored* __restrict__ output,"
    + NUMBERS
    + r""") {
    __shared__ Words tile_key[SPAN * PITCH / 8], tile_value[SPAN * PITCH / 8];"""
    + _PLACE.replace("$rows", "queries")
    + _SEEN_KEYS
    + r"""
    unsigned own[STEPS][4], own_gradient[STEPS][4];
    load_own(own, query + pair * queries * DEPTH, first, queries, lane);
    load_own(own_gradient, gradient + pair * queries * DEPTH, first, queries, lane);
    float sum[DEPTH / 8][4] = {};
    for (long long start = 0; start < seen; start += SPAN) {
        __syncthreads();
        load_rows<SPAN>((Stored*)tile_key, key + pair * keys * DEPTH, start, keys);
        load_rows<SPAN>((Stored*)tile_value, value + pair * keys * DEPTH, start, keys);
        __syncthreads();"""
    + _replaced(_NOTHING_SEEN, _BY_QUERIES)
    + r"""
        float scores[SPAN / 8][4] = {}, slopes[SPAN / 8][4] = {};
        add_scores(scores, own, (const Stored*)tile_key, lane);
        add_scores(slopes, own_gradient, (const Stored*)tile_value, lane);"""
    + _replaced(_SCORES, _BY_QUERIES)
    + _SLOPES
    + r"""
            }
        add_weighted(sum, slopes, (const Stored*)tile_key, lane);
    }
    const float factors[2] = {(float)scale, (float)scale};
    store_own(output + pair * queries * DEPTH, first, queries, sum, factors, lane);
}
"""
)

KEY_GRADIENT: Final = (
    COMMON
    + "KERNEL("
    + ARGUMENTS
    + GIVEN
    + "\n    Stored* __restrict__ of_key, Stored* __restrict__ of_value,"
    + NUMBERS
    + r""") {
    __shared__ Words tile_query[SPAN * PITCH / 8], tile_gradient[SPAN * PITCH / 8];"""
    + _PLACE.replace("$rows", "keys")
    + _SEEING_QUERIES
    + r"""
    unsigned own[STEPS][4], own_value[STEPS][4];
    load_own(own, key + pair * keys * DEPTH, first, keys, lane);
    load_own(own_value, value + pair * keys * DEPTH, first, keys, lane);
    float sum_key[DEPTH / 8][4] = {}, sum_value[DEPTH / 8][4] = {};
    for (long long start = before; start < queries; start += SPAN) {
        __syncthreads();
        load_rows<SPAN>((Stored*)tile_query, query + pair * queries * DEPTH, start, queries);
        load_rows<SPAN>((Stored*)tile_gradient, gradient + pair * queries * DEPTH, start, queries);
        __syncthreads();"""
    + _replaced(_NOTHING_SEEN, _BY_KEYS)
    + r"""
        float scores[SPAN / 8][4] = {}, slopes[SPAN / 8][4] = {};
        add_scores(scores, own, (const Stored*)tile_query, lane);
        add_scores(slopes, own_value, (const Stored*)tile_gradient, lane);"""
    + _replaced(_SCORES, _BY_KEYS)
    + _SLOPES
    + r"""
                score = kept ? weight * (float)kept_scale : 0;
            }
        add_weighted(sum_value, scores, (const Stored*)tile_gradient, lane);
        add_weighted(sum_key, slopes, (const Stored*)tile_query, lane);
    }
    const float of_keys[2] = {(float)scale, (float)scale}, of_values[2] = {1, 1};
    store_own(of_key + pair * keys * DEPTH, first, keys, sum_key, of_keys, lane);
    store_own(of_value + pair * keys * DEPTH, first, keys, sum_value, of_values, lane);
}
"""
)
