"""The CUDA texts of attention in blocks: scores live in a block's shared memory only, and nothing is added atomically.

A block of threads has a tile of queries, or, for the gradients of keys and values, of keys. It passes over all tiles of
the others. Where attention is causal, it passes over those alone of which something is seen. Four threads share a row
of the tile. Whether there is a mask to read, and whether attention is causal, is filled in.
"""

from __future__ import annotations

from typing import Final

ARGUMENTS: Final = r"""
    const Stored* __restrict__ query, const Stored* __restrict__ key, const Stored* __restrict__ value,
    $mask_argument const unsigned long long* __restrict__ drawn,"""

NUMBERS: Final = r"""
    long long heads, long long queries, long long keys, long long mask_batch, long long mask_head, double scale,
    double masked, unsigned limit, double kept_scale, long long first_batch, long long first_head,
    long long first_query, long long all_heads, long long all_queries"""

WITH_MASK: Final = {
    "mask_argument": "const Stored* __restrict__ mask,",
    "mask_place": "const Stored* masks = mask + batch * mask_batch + head * mask_head;",
    "mask_added": "+ (1 - from_Stored(masks[query_place * keys + key_place])) * (Wide)masked",
}
WITHOUT_MASK: Final = dict.fromkeys(WITH_MASK, "")

COMMON: Final = r"""
$element
$mixed
enum { TILE = $tile, DEPTH = $depth, PITCH = DEPTH + 1, PARTS = (DEPTH + 3) / 4, WIDTH = TILE + 1 };

__device__ __forceinline__ void load_tile(
    Wide* tile, const Stored* rows, long long first, long long count, Wide factor) {
    for (int at = threadIdx.x; at < TILE * DEPTH; at += $threads) {
        const int row = at / DEPTH, place = at % DEPTH;
        tile[row * PITCH + place] = first + row < count ? from_Stored(rows[(first + row) * DEPTH + place]) * factor : 0;
    }
}

__device__ __forceinline__ Wide product(const Wide* x, const Wide* y) {
    Wide sum = 0;
#pragma unroll 8
    for (int place = 0; place < DEPTH; ++place) sum += x[place] * y[place];
    return sum;
}
"""

_PLACE: Final = r"""
    const long long tiles = ($rows + TILE - 1) / TILE, pair = blockIdx.x / tiles, first = blockIdx.x % tiles * TILE;
    const long long batch = pair / heads, head = pair % heads;
    const int row = threadIdx.x / 4, part = threadIdx.x % 4;
    $mask_place
    const unsigned long long own = *drawn;
    const unsigned long long whole =
        ((first_batch + batch) * all_heads + first_head + head) * all_queries + first_query;
    const Wide none = -(Wide)__int_as_float(0x7f800000);
"""

_SCORE: Final = r"""
                Wide score = none;
                if (query_place < queries && key_place < keys
                    && (!$causal || key_place <= first_query + query_place))
                    score = product(tile_query + $query_row * PITCH, tile_key + $key_row * PITCH) $mask_added;
"""

_SEEN_KEYS: Final = r"""
    const long long beyond = first_query + first + TILE, seen = $causal && beyond < keys ? beyond : keys;
"""

_SEEING_QUERIES: Final = r"""
    const long long before = $causal && first > first_query ? (first - first_query) / TILE * TILE : 0;
"""

FORWARD: Final = (
    COMMON
    + "KERNEL("
    + ARGUMENTS
    + "\n    Stored* __restrict__ output, Wide* __restrict__ sums,"
    + NUMBERS
    + """) {
    __shared__ Wide tile_query[TILE * PITCH], tile_key[TILE * PITCH], scores[TILE * WIDTH], partial[TILE * 4];"""
    + _PLACE.replace("$rows", "queries")
    + _SEEN_KEYS
    + r"""
    load_tile(tile_query, query + pair * queries * DEPTH, first, queries, (Wide)scale);
    Wide largest = none, total = 0, sum[PARTS] = {};
    const long long query_place = first + row;
    for (long long start = 0; start < seen; start += TILE) {
        __syncthreads();
        load_tile(tile_key, key + pair * keys * DEPTH, start, keys, 1);
        __syncthreads();
        for (int column = part; column < TILE; column += 4) {
            const long long key_place = start + column;
            {"""
    + _SCORE.replace("$query_row", "row").replace("$key_row", "column")
    + r"""
                scores[row * WIDTH + column] = score;
            }
        }
        __syncthreads();
        load_tile(tile_key, value + pair * keys * DEPTH, start, keys, 1);
        Wide next = largest;
        for (int column = 0; column < TILE; ++column) next = maximum(next, scores[row * WIDTH + column]);
        __syncthreads();
        Wide own_total = 0;
        for (int column = part; column < TILE; column += 4) {
            const Wide score = scores[row * WIDTH + column];
            const Wide weight = score == none ? 0 : exp(score - next);
            own_total += weight;
            const bool kept = !$drops || is_kept(own, (whole + query_place) * keys + start + column, limit);
            scores[row * WIDTH + column] = kept ? weight * (Wide)kept_scale : 0;
        }
        partial[threadIdx.x] = own_total;
        __syncthreads();
        const Wide factor = largest == next ? 1 : exp(largest - next);
        const Wide* of_row = partial + row * 4;
        total = total * factor + (of_row[0] + of_row[1] + (of_row[2] + of_row[3]));
        for (int at = 0; at < PARTS; ++at) {
            const int place = part + 4 * at;
            Wide added = sum[at] * factor;
            if (place < DEPTH)
                for (int column = 0; column < TILE; ++column)
                    added += scores[row * WIDTH + column] * tile_key[column * PITCH + place];
            sum[at] = added;
        }
        largest = next;
    }
    if (query_place >= queries) return;
    const long long target = pair * queries + query_place;
    for (int at = 0; at < PARTS; ++at)
        if (part + 4 * at < DEPTH) output[target * DEPTH + part + 4 * at] = to_Stored(sum[at] / total);
    if (part == 0) sums[target] = largest + log(total);
}
"""
)

GIVEN: Final = (
    "\n    const Stored* __restrict__ gradient, const Wide* __restrict__ sums, const Wide* __restrict__ products,"
)

_WEIGHT: Final = r"""
                const Wide weight = score == none ? 0 : exp(score - sums[pair * queries + query_place]);
                const bool kept = !$drops || is_kept(own, (whole + query_place) * keys + key_place, limit);
                const Wide kept_weight = kept ? weight * (Wide)kept_scale : 0;
                Wide slope = 0;
                if (weight != 0) {
                    const Wide of_weight = product(tile_gradient + $query_row * PITCH, tile_value + $key_row * PITCH);
                    const Wide mean = products[pair * queries + query_place];
                    slope = weight * ((kept ? of_weight * (Wide)kept_scale : 0) - mean);
                }
"""

QUERY_GRADIENT: Final = (
    COMMON
    + "KERNEL("
    + ARGUMENTS
    + GIVEN
    + "\n    Stored* __restrict__ output,"
    + NUMBERS
    + r""") {
    __shared__ Wide tile_query[TILE * PITCH], tile_key[TILE * PITCH], tile_value[TILE * PITCH];
    __shared__ Wide tile_gradient[TILE * PITCH], slopes[TILE * WIDTH];"""
    + _PLACE.replace("$rows", "queries")
    + _SEEN_KEYS
    + r"""
    load_tile(tile_query, query + pair * queries * DEPTH, first, queries, (Wide)scale);
    load_tile(tile_gradient, gradient + pair * queries * DEPTH, first, queries, 1);
    Wide sum[PARTS] = {};
    const long long query_place = first + row;
    for (long long start = 0; start < seen; start += TILE) {
        __syncthreads();
        load_tile(tile_key, key + pair * keys * DEPTH, start, keys, 1);
        load_tile(tile_value, value + pair * keys * DEPTH, start, keys, 1);
        __syncthreads();
        for (int column = part; column < TILE; column += 4) {
            const long long key_place = start + column;
            {"""
    + (_SCORE + _WEIGHT).replace("$query_row", "row").replace("$key_row", "column")
    + r"""
                slopes[row * WIDTH + column] = slope;
            }
        }
        __syncthreads();
        for (int at = 0; at < PARTS; ++at) {
            const int place = part + 4 * at;
            if (place < DEPTH)
                for (int column = 0; column < TILE; ++column)
                    sum[at] += slopes[row * WIDTH + column] * tile_key[column * PITCH + place];
        }
    }
    if (query_place >= queries) return;
    for (int at = 0; at < PARTS; ++at)
        if (part + 4 * at < DEPTH)
            output[(pair * queries + query_place) * DEPTH + part + 4 * at] = to_Stored(sum[at] * (Wide)scale);
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
    __shared__ Wide tile_query[TILE * PITCH], tile_key[TILE * PITCH], tile_value[TILE * PITCH];
    __shared__ Wide tile_gradient[TILE * PITCH], slopes[TILE * WIDTH], weights[TILE * WIDTH];"""
    + _PLACE.replace("$rows", "keys")
    + _SEEING_QUERIES
    + r"""
    load_tile(tile_key, key + pair * keys * DEPTH, first, keys, 1);
    load_tile(tile_value, value + pair * keys * DEPTH, first, keys, 1);
    Wide sum_key[PARTS] = {}, sum_value[PARTS] = {};
    const long long key_place = first + row;
    for (long long start = before; start < queries; start += TILE) {
        __syncthreads();
        load_tile(tile_query, query + pair * queries * DEPTH, start, queries, (Wide)scale);
        load_tile(tile_gradient, gradient + pair * queries * DEPTH, start, queries, 1);
        __syncthreads();
        for (int line = part; line < TILE; line += 4) {
            const long long query_place = start + line;
            {"""
    + (_SCORE + _WEIGHT).replace("$query_row", "line").replace("$key_row", "row")
    + r"""
                slopes[row * WIDTH + line] = slope;
                weights[row * WIDTH + line] = kept_weight;
            }
        }
        __syncthreads();
        for (int at = 0; at < PARTS; ++at) {
            const int place = part + 4 * at;
            if (place < DEPTH)
                for (int line = 0; line < TILE; ++line) {
                    sum_key[at] += slopes[row * WIDTH + line] * tile_query[line * PITCH + place];
                    sum_value[at] += weights[row * WIDTH + line] * tile_gradient[line * PITCH + place];
                }
        }
    }
    if (key_place >= keys) return;
    for (int at = 0; at < PARTS; ++at)
        if (part + 4 * at < DEPTH) {
            const long long place = (pair * keys + key_place) * DEPTH + part + 4 * at;
            of_key[place] = to_Stored(sum_key[at]);
            of_value[place] = to_Stored(sum_value[at]);
        }
}
"""
)
