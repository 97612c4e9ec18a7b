"""The loops of a convolution, compiled: a matrix product whose second matrix is gathered from images as it is needed.

That matrix is never made. Its element (k, n) is the image's element at ``rows[k] + columns[n]``: a place in the window
and a window. In the image ``run`` windows are beside each other. A few columns at a time are packed for tiles of
registers. All arrays have one dim; offsets are int64. Needs numba: ask `compiled_loops` for this module.
"""

from __future__ import annotations

from mpiparallel.backend.compiled import compiled, inlined
from mpiparallel.backend.register_tiles import gather, product, tile_rows, transpose_square, vector_lanes


@compiled
def pad(images, count, size, padded, places):
    """Set each padded image from an image of ``size`` elements: element i is its ``places[i]``, 0 where negative."""
    target = 0
    for begin in range(0, count * size, size):
        for place in places:
            padded[target] = images[begin + place] if place >= 0 else 0
            target += 1


@compiled
def pad_rows(images, count, height, width, padded, top, left, rows, columns, nothing):
    """Copy each image to ``rows`` x ``columns`` elements, ``top`` down and ``left`` across, with zeros around it.

    Images are as wide as a vector at least; ``nothing`` is [0].
    """
    lanes, target = vector_lanes(images), 0
    for image in range(count):
        for row in range(-top, rows - top):
            if row < 0 or row >= height:
                for column in range(columns):
                    padded[target + column] = 0
            else:
                source, start = (image * height + row) * width, target + left
                for column in range(left):
                    padded[target + column] = 0
                for column in range(0, width - lanes, lanes):
                    gather(padded, start + column, images, source + column, nothing, 0, lanes)
                gather(padded, start + width - lanes, images, source + width - lanes, nothing, 0, lanes)
                for column in range(left + width, columns):
                    padded[target + column] = 0
            target += columns


@compiled
def transpose(count, source, rows, columns, target, starts):
    """Transpose ``count`` matrices; ``starts`` are those of as many rows as a vector has numbers."""
    lanes = vector_lanes(source)
    full_rows, full_columns = rows - rows % lanes, columns - columns % lanes
    for start in range(0, count * rows * columns, rows * columns):
        for row in range(0, full_rows, lanes):
            for column in range(0, full_columns, lanes):
                place = start + row * columns + column
                transpose_square(target, start + column * rows + row, rows, source, place, starts, 0)
        for row in range(rows):
            for column in range(full_columns if row < full_rows else 0, columns):
                target[start + column * rows + row] = source[start + row * columns + column]


@inlined
def pack(run, source, begin, rows, row, depth, columns, first, last, packed):
    """Pack columns [first, last) of ``depth`` rows, for tiles one after another.

    All columns of a row are read before the next row, which may be in another page of memory.
    """
    lanes = vector_lanes(source)
    for k in range(depth):
        place, target = begin + rows[row + k], k * 2 * lanes
        for n in range(first, last, 2 * lanes):
            gather(packed, target, source, place, columns, n, run)
            gather(packed, target + lanes, source, place, columns, n + lanes, run)
            target += depth * 2 * lanes


@inlined
def pack_transposed(run, source, begin, rows, row, columns, column, depth, starts, packed, square):
    """Pack the transpose for one tile: ``depth`` columns as rows."""
    lanes = vector_lanes(source)
    for part in range(0, 2 * lanes, lanes):
        for n in range(0, depth, lanes):
            if run == lanes:
                place = begin + columns[column + n]
                transpose_square(packed, 2 * n * lanes + part, 2 * lanes, source, place, rows, row + part)
            else:
                for k in range(lanes):
                    place = begin + rows[row + part + k]
                    gather(square, k * lanes, source, place, columns, column + n, run)
                transpose_square(packed, 2 * n * lanes + part, 2 * lanes, square, 0, starts, 0)


@inlined
def store(tile, high, wide, out, to, pitch, places, n, more):
    """Set, or with ``more`` add to, the elements at ``places[n]`` ... of some lines from a part of a tile."""
    width = 2 * vector_lanes(tile)
    for i in range(high):
        for j in range(wide):
            place = to + i * pitch + places[n + j]
            if more:
                out[place] += tile[i * width + j]
            else:
                out[place] = tile[i * width + j]


@inlined
def multiply_packed(a, at, step, height, depth, packed, apart, first, last, out, to, pitch, places, more, tile):
    """Multiply lines of a by packed columns [first, last); tiles are ``apart`` in the packed."""
    high, wide = tile_rows(a), 2 * vector_lanes(a)
    for m in range(0, height, high):
        lines, line, target = min(high, height - m), at + m * step, to + m * pitch
        for n in range(first, last, wide):
            count, start = min(wide, last - n), (n - first) * apart
            if lines == high and count == wide and places[n + wide - 1] - places[n] == wide - 1:
                product(depth, a, line, step, lines, packed, start, out, target + places[n], pitch, more)
            else:
                product(depth, a, line, step, lines, packed, start, tile, 0, wide, False)
                store(tile, lines, count, out, target, pitch, places, n, more)


@compiled
def multiply(
    groups,
    a,
    step,
    height,
    begins,
    ends,
    source,
    apart,
    rows,
    columns,
    width,
    together,
    run,
    out,
    pitch,
    places,
    packed,
    tile,
):
    """Set ``out`` to a times the gathered matrix, for each group; ``together`` columns are packed at once.

    Element (m, n) of the product is ``out[m * pitch + places[n]]``. Only rows ``begins`` to ``ends`` count.
    """
    for group in range(groups):
        for first in range(0, width, together):
            last = min(first + together, width)
            for block in range(len(begins)):
                row, depth = begins[block], ends[block] - begins[block]
                pack(run, source, group * apart, rows, row, depth, columns, first, last, packed)
                multiply_packed(
                    a,
                    group * height * step + row,
                    step,
                    height,
                    depth,
                    packed,
                    depth,
                    first,
                    last,
                    out,
                    group * height * pitch,
                    pitch,
                    places,
                    block > 0,
                    tile,
                )


@compiled
def correlate(
    groups,
    a,
    step,
    height,
    source,
    apart,
    rows,
    width,
    columns,
    begins,
    ends,
    run,
    out,
    places,
    more,
    starts,
    packed,
    tile,
):
    """Set ``out``, or with ``more`` add to it: a times the transpose of the gathered matrix, for each group.

    Columns ``begins`` to ``ends`` of a, and of that matrix, are packed at once.
    """
    wide = 2 * vector_lanes(a)
    for group in range(groups):
        for block in range(len(begins)):
            first, depth, adds = begins[block], ends[block] - begins[block], more or block > 0
            for n in range(0, width, wide):
                pack_transposed(run, source, group * apart, rows, n, columns, first, depth, starts, packed, tile)
                multiply_packed(
                    a,
                    group * height * step + first,
                    step,
                    height,
                    depth,
                    packed,
                    0,
                    n,
                    min(n + wide, width),
                    out,
                    group * height * width,
                    width,
                    places,
                    adds,
                    tile,
                )
