"""Products of matrices of bfloat16, compiled: packed in panels, multiplied in tiles of registers, summed in float32.

Matrices are given by addresses and strides in bytes; of each one stride is that of neighbours. Needs numba and a
processor with AVX512-BF16: ask `pair_products` for this module.
"""

from __future__ import annotations

from typing import NamedTuple

from mpiparallel.backend.compiled import compiled, inlined
from mpiparallel.backend.products.bfloat16_panel_tiles import LINES, pack, panel_bytes
from mpiparallel.backend.products.bfloat16_tiles import product

ROWS, COLUMNS = 8, 48
TILE_BYTES = ROWS * COLUMNS * 4
DEPTH = 384
"""Numbers of the depth that are multiplied at once, at most: 48 columns of them are 36 KiB, and 16 rows 12 KiB."""
HIGH = 192
"""Rows that are multiplied by all packed columns before the next: 144 KiB, which stay in the second cache."""
WIDE = 1536
"""Columns that are packed at once, at most."""
LONG = 4096
"""Numbers of the depth that are packed of them at once, at most."""
TALL = 1536
"""Rows whose sums are kept where the depth is longer than that."""
KEPT = 1 << 22
"""Numbers of all rows that stay packed for the next columns, at most."""


class Blocks(NamedTuple):
    """How much of a product is taken at once.

    ``high`` rows by ``wide`` columns over ``part`` of the depth, for ``tall`` rows and ``long`` of the depth before the
    next; the depth has ``parts``. Blocks of packed rows are ``kept`` bytes apart; 0: each takes the last one's place.
    """

    high: int
    wide: int
    part: int
    parts: int
    tall: int
    long: int
    kept: int

    @classmethod
    def of(cls, height: int, width: int, depth: int) -> Blocks:
        """Return how a product of (height, depth) by (depth, width) is taken."""
        high, wide, part = _even(height, HIGH, LINES), _even(width, WIDE, COLUMNS), _even(depth, DEPTH, 2 * LINES)
        long = _even(depth, LONG, part)
        tall = TALL // high * high if depth > long else -(-height // high) * high
        keeps = width > wide and height * depth <= KEPT
        return cls(high, wide, part, -(-depth // part), tall, long, high // LINES * _panel(part) if keeps else 0)

    def memory(self, height: int, width: int, depth: int) -> tuple[int, int, int]:
        """Return the bytes for packed rows, for packed columns and for sums."""
        rows = -(-height // self.high) * self.parts * self.kept or self.high // LINES * _panel(self.part)
        columns = -(-min(width, self.wide) // LINES) * _panel(min(self.long, depth))
        tall = self.tall if depth > self.long else self.high
        return rows, columns, tall // ROWS * (self.wide // COLUMNS) * TILE_BYTES


def _even(extent: int, most: int, multiple: int) -> int:
    """Return the extent of equal parts of at most ``most``, but for the last; a multiple."""
    return -(-extent // (-(-extent // most) * multiple)) * multiple


def _panel(depth: int) -> int:
    return int(panel_bytes.py_func(depth))


@inlined
def multiply_packed(rows, columns, a, row_panel, b, panel, depth, sums, out, out_pitch, size, more, last):
    """Multiply packed rows by packed columns."""
    for n in range(0, columns, COLUMNS):
        for m in range(0, rows, ROWS):
            product(
                (depth + 1) // 2,
                a + m // LINES * row_panel + m % LINES * 4,
                b + n // LINES * panel,
                panel,
                sums,
                out + m * out_pitch + n * size,
                out_pitch,
                rows - m,
                min(columns - n, COLUMNS),
                more,
                last,
                size == 2,
            )
            sums += TILE_BYTES


@inlined
def multiply_rows(
    x, strides, rows, depth, part, packed, kept, packs, b, panel, columns, sums, out, out_pitch, size, more, last
):
    """Multiply rows by packed columns, a part of the depth at a time, and pack them before if need be."""
    row_panel = panel_bytes(part)
    for k in range(0, depth, part):
        inner = min(part, depth - k)
        if packs:
            pack(packed, row_panel, x + k * strides[1], strides[0], strides[1], rows, inner)
        adds, ends = more or k > 0, last and k + inner == depth
        multiply_packed(
            rows, columns, packed, row_panel, b + k * 32, panel, inner, sums, out, out_pitch, size, adds, ends
        )
        packed += kept


@compiled
def multiply(places, shape, blocks, x, y, out, strides, size, packed_rows, packed_columns, sums):
    """Set each matrix at ``out + places[i, 2]`` to that at ``x + places[i, 0]`` times that at ``y + places[i, 1]``.

    ``shape`` is (m, n, k), and ``strides`` are those of x's rows and columns, y's, and out's rows. An element of
    ``out`` has ``size`` bytes: 2 for bfloat16, 4 for float32.
    """
    height, width, depth = shape
    high, wide, part, parts, tall, long, kept = blocks
    panel, apart = panel_bytes(min(depth, long)), high // ROWS * (wide // COLUMNS) * TILE_BYTES
    for place in range(len(places)):
        left, right, target = x + places[place, 0], y + places[place, 1], out + places[place, 2]
        fresh = place == 0 or width > wide or height > tall or depth > long or places[place, 1] != places[place - 1, 1]
        for n in range(0, width, wide):
            columns = min(wide, width - n)
            for top in range(0, height, tall):
                for k in range(0, depth, long):
                    inner = min(long, depth - k)
                    if fresh:
                        start = right + n * strides[3] + k * strides[2]
                        pack(packed_columns, panel, start, strides[3], strides[2], columns, inner)
                    for m in range(top, min(top + tall, height), high):
                        multiply_rows(
                            left + m * strides[0] + k * strides[1],
                            strides,
                            min(high, height - m),
                            inner,
                            part,
                            packed_rows + (m // high * parts + k // part) * kept,
                            kept,
                            kept == 0 or n == 0,
                            packed_columns,
                            panel,
                            columns,
                            sums + (m - top) // high * apart * (depth > long),
                            target + m * strides[4] + n * size,
                            strides[4],
                            size,
                            k > 0,
                            k + inner == depth,
                        )
