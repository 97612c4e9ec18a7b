"""Products of matrices of bfloat16, compiled: packed in panels, multiplied in tiles of registers, summed in float32.

Matrices are given by addresses and strides in bytes; of each one stride is that of neighbours. Needs numba and a
processor with AVX512-BF16: ask `pair_products` for this module.
"""

from __future__ import annotations

from mpiparallel.backend.bfloat16_tiles import pack_pair, pack_square, product
from mpiparallel.backend.compiled import compiled, inlined

LINES, ROWS, COLUMNS = 16, 8, 48
DEPTH = 512
"""Numbers of the depth that are multiplied at once, at most: 48 columns of them are 48 KiB, and 8 rows 8 KiB."""
HIGH = 192
"""Rows that are packed at once: 192 KiB, which stay in the second cache."""
WIDE = 1536
"""Columns that are packed at once, over the whole depth."""


@inlined
def pack(target, panel, source, line, step, lines, depth):
    """Pack lines that are ``line`` bytes apart, their numbers ``step`` bytes apart, in panels of ``panel`` bytes."""
    if step == 2:
        for first in range(0, lines, LINES):
            for k in range(0, depth, 2 * LINES):
                start = source + first * line + k * 2
                pack_square(target + k * 32, start, line, lines - first, min(depth - k, 2 * LINES))
            target += panel
    else:
        for k in range(0, depth, 2):
            for first in range(0, lines, LINES):
                start = source + first * 2 + k * step
                pack_pair(target + k * 32 + first // LINES * panel, start, start + step, lines - first, k + 1 < depth)


@inlined
def multiply_packed(rows, columns, a, b, panel, depth, sums, out, out_pitch, size, more, last):
    """Multiply packed rows by packed columns."""
    pairs = (depth + 1) // 2
    for n in range(0, columns, COLUMNS):
        for m in range(0, rows, ROWS):
            left = a + m // LINES * panel_bytes(depth) + m % LINES * 4
            product(
                pairs,
                left,
                b + n // LINES * panel,
                panel,
                sums + m * WIDE * 4 + n * 4,
                WIDE * 4,
                out + m * out_pitch + n * size,
                out_pitch,
                rows - m,
                min(columns - n, COLUMNS),
                more,
                last,
                size == 2,
            )


@inlined
def panel_bytes(depth):
    """Return the bytes of a panel: whole squares, and a line of cache, or all panels would share a few of its sets."""
    return (depth + 2 * LINES - 1) // (2 * LINES) * 2 * LINES * LINES * 2 + 64


@compiled
def multiply(places, shape, x, y, out, strides, size, packed_rows, packed_columns, sums):
    """Set each matrix at ``out + places[i, 2]`` to that at ``x + places[i, 0]`` times that at ``y + places[i, 1]``.

    ``shape`` is (m, n, k), and ``strides`` are those of x's rows and columns, y's, and out's rows. An element of
    ``out`` has ``size`` bytes: 2 for bfloat16, 4 for float32.
    """
    height, width, depth = shape
    x_row, x_column, y_row, y_column, out_row = strides
    whole = panel_bytes(depth)
    parts = (depth + DEPTH - 1) // DEPTH
    together = (depth + parts * 2 * LINES - 1) // (parts * 2 * LINES) * 2 * LINES
    for place in range(len(places)):
        for n in range(0, width, WIDE):
            columns = min(WIDE, width - n)
            if place == 0 or n > 0 or width > WIDE or places[place, 1] != places[place - 1, 1]:
                pack(packed_columns, whole, y + places[place, 1] + n * y_column, y_column, y_row, columns, depth)
            for m in range(0, height, HIGH):
                rows = min(HIGH, height - m)
                for k in range(0, depth, together):
                    inner = min(together, depth - k)
                    begin = x + places[place, 0] + m * x_row + k * x_column
                    pack(packed_rows, panel_bytes(inner), begin, x_row, x_column, rows, inner)
                    multiply_packed(
                        rows,
                        columns,
                        packed_rows,
                        packed_columns + k * 32,
                        whole,
                        inner,
                        sums,
                        out + places[place, 2] + m * out_row + n * size,
                        out_row,
                        size,
                        k > 0,
                        k + inner == depth,
                    )
