"""Panels of 16 packed lines: how matrices of bfloat16 are packed in them, and how many bytes they take.

Needs numba: import this module from compiled loops only.
"""

from __future__ import annotations

from mpiparallel.backend.compiled import inlined
from mpiparallel.backend.products.bfloat16_packing_tiles import pack_pairs, pack_square

LINES = 16


@inlined
def panel_bytes(depth):
    """Return the bytes of a panel: whole squares, and a line of cache, or all panels would share a few of its sets."""
    return (depth + 2 * LINES - 1) // (2 * LINES) * 2 * LINES * LINES * 2 + 64


@inlined
def pack(target, panel, source, line, step, lines, depth):
    """Pack lines that are ``line`` bytes apart, their numbers ``step`` bytes apart, in panels of ``panel`` bytes.

    One of the two strides is that of neighbours. All lines of a block of the depth are read before the next block.
    """
    if step == 2:
        for first in range(0, lines, LINES):
            for k in range(0, depth, 2 * LINES):
                start = source + first * line + k * 2
                pack_square(target + k * 32, start, line, lines - first, depth - k)
            target += panel
    else:
        for k in range(0, depth, 2 * LINES):
            for first in range(0, lines, 2 * LINES):
                place = target + first // LINES * panel
                for pair in range(k, min(k + 2 * LINES, depth), 2):
                    start = source + first * 2 + pair * step
                    pack_pairs(place + pair * 32, panel, start, start + step, lines - first, pair + 1 < depth)
