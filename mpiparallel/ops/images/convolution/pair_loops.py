"""The loops of a convolution of bfloat16 images, compiled: as `loops`, with packed pairs, and sums in float32.

Arrays hold the bits of the numbers, in one dim. Needs numba and a processor with AVX512-BF16: ask `CompiledLoops` for
this module.
"""

from __future__ import annotations

from mpiparallel.backend.compiled import compiled, inlined
from mpiparallel.backend.products.bfloat16_packing_tiles import address, pack_pairs, pack_square
from mpiparallel.backend.products.bfloat16_panel_tiles import LINES, pack, panel_bytes
from mpiparallel.backend.products.bfloat16_tiles import product
from mpiparallel.backend.register_tiles import gather
from mpiparallel.ops.images.convolution.loops import pad, pad_rows, transpose

__all__ = ["correlate", "multiply", "pad", "pad_rows", "transpose"]

ROWS, COLUMNS = 8, 48
TILE_BYTES = ROWS * COLUMNS * 4
RUN = 2 * LINES
"""Numbers of a line that are gathered at once."""


@inlined
def gather_panels(run, source, begin, rows, row, depth, columns, first, last, target, panel, line):
    """Pack columns [first, last) of ``depth`` rows of the gathered matrix; ``line`` has room for a square of runs."""
    lines = address(line)
    for k in range(0, depth, RUN):
        some = min(RUN, depth - k)
        for n in range(first, last, RUN):
            for place in range(some):
                gather(line, place * RUN, source, begin + rows[row + k + place], columns, n, run)
            start = target + (n - first) // LINES * panel + k * 2 * LINES
            for place in range(0, some, 2):
                upper = lines + place * RUN * 2
                pack_pairs(start + place * 2 * LINES, panel, upper, upper + RUN * 2, last - n, place + 1 < some)


@inlined
def gather_turned(run, source, begin, rows, first, last, columns, column, depth, target, panel, line):
    """Pack the transpose: rows [first, last) of the gathered matrix as columns, ``depth`` of its columns as rows."""
    lines = address(line)
    for row in range(first, last, LINES):
        for k in range(0, depth, RUN):
            for place in range(LINES):
                gather(line, place * RUN, source, begin + rows[row + place], columns, column + k, run)
            pack_square(target + k * 2 * LINES, lines, RUN * 2, last - row, depth - k)
        target += panel


@inlined
def store(tile, high, wide, out, to, pitch, places, n):
    """Set the elements at ``places[n]`` ... of some lines from a part of a tile."""
    for i in range(high):
        for j in range(wide):
            out[to + i * pitch + places[n + j]] = tile[i * COLUMNS + j]


@inlined
def multiply_packed(
    height, depth, lines, line_panel, packed, panel, sums, first, last, out, to, pitch, places, more, ends, tile
):
    """Multiply packed lines by packed columns [first, last) of the output."""
    target, small = address(out), address(tile)
    for n in range(first, last, COLUMNS):
        count = min(COLUMNS, last - n)
        beside = places[n + count - 1] - places[n] == count - 1
        for m in range(0, height, ROWS):
            rows = min(ROWS, height - m)
            goes = target + (to + m * pitch + places[n]) * 2
            product(
                (depth + 1) // 2,
                lines + m // LINES * line_panel + m % LINES * 4,
                packed + (n - first) // LINES * panel,
                panel,
                sums,
                goes if beside else small,
                pitch * 2 if beside else COLUMNS * 2,
                rows,
                count,
                more,
                ends,
                True,
            )
            if ends and not beside:
                store(tile, rows, count, out, to + m * pitch, pitch, places, n)
            sums += TILE_BYTES


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
    lines,
    sums,
):
    """Set ``out`` to a times the gathered matrix, for each group; ``together`` columns are packed at once.

    Element (m, n) of the product is ``out[m * pitch + places[n]]``. Only rows ``begins`` to ``ends`` count.
    """
    blocks, most = len(begins), 0
    for block in range(blocks):
        most = max(most, ends[block] - begins[block])
    panel = panel_bytes(most)
    whole = (height + LINES - 1) // LINES * panel
    for group in range(groups):
        for block in range(blocks):
            start = address(a) + (group * height * step + begins[block]) * 2
            pack(address(lines) + block * whole, panel, start, step * 2, 2, height, ends[block] - begins[block])
        for first in range(0, width, together):
            last = min(first + together, width)
            for block in range(blocks):
                row, depth = begins[block], ends[block] - begins[block]
                to = address(packed)
                gather_panels(run, source, group * apart, rows, row, depth, columns, first, last, to, panel, tile)
                multiply_packed(
                    height,
                    depth,
                    address(lines) + block * whole,
                    panel,
                    to,
                    panel,
                    address(sums),
                    first,
                    last,
                    out,
                    group * height * pitch,
                    pitch,
                    places,
                    block > 0,
                    block == blocks - 1,
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
    last,
    packed,
    tile,
    lines,
    sums,
):
    """Add a times the transpose of the gathered matrix, for each group, to sums; with ``last`` set ``out`` to them.

    Columns ``begins`` to ``ends`` of a, and of that matrix, are packed at once. Without ``more`` sums begin anew.
    """
    blocks = len(begins)
    strip = (height + ROWS - 1) // ROWS * TILE_BYTES
    for group in range(groups):
        for block in range(blocks):
            first, depth = begins[block], ends[block] - begins[block]
            panel = panel_bytes(depth)
            pack(address(lines), panel, address(a) + (group * height * step + first) * 2, step * 2, 2, height, depth)
            for n in range(0, width, COLUMNS):
                final, to = min(n + COLUMNS, width), address(packed)
                gather_turned(run, source, group * apart, rows, n, final, columns, first, depth, to, panel, tile)
                multiply_packed(
                    height,
                    depth,
                    address(lines),
                    panel,
                    to,
                    panel,
                    address(sums) + (group * ((width + COLUMNS - 1) // COLUMNS) + n // COLUMNS) * strip,
                    n,
                    final,
                    out,
                    group * height * width,
                    width,
                    places,
                    more or block > 0,
                    last and block == blocks - 1,
                    tile,
                )
