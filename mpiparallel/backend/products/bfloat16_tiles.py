"""Tiles of a product of bfloat16 matrices in a processor's registers, by AVX512-BF16.

The instruction multiplies pairs: to each of 16 sums in float32 it adds two products, of two numbers that follow each
other in the depth. So matrices are packed as panels of 16 lines: for each pair of the depth, the pairs of 16 lines
beside each other. Arrays are given by addresses. Needs numba and that instruction: import this module from compiled
loops only.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mpiparallel.backend.products.bfloat16_vector_tiles import FACTORS, INDEX, LINES, PAIR, PAIRS, SUMS, Emitter, number
from mpiparallel.dataclass import dataclass

TILE_ROWS = 8
TILE_PANELS = 3
"""A tile has 8 x 48 sums: 24 of 32 registers, 3 for columns, the rest for a row's pair."""
TILE_BYTES = TILE_ROWS * TILE_PANELS * LINES * 4

_SIZE = types.intp
_SUM_PITCH = TILE_PANELS * LINES * 4
_LINE = 64


@intrinsic
def product(typing, pairs, a, b, panel, sums, out, out_pitch, rows, columns, more, last, rounds):
    """Multiply up to 8 packed rows by up to 48 packed columns, whose panels are ``panel`` bytes apart.

    With ``more`` the tile of float32 at ``sums`` is added. With ``last`` the tile goes to ``out``, as bfloat16 where it
    ``rounds``, else to ``sums``, where a tile has ``TILE_BYTES``.
    """
    return types.void(*[_SIZE] * 9, *[types.boolean] * 3), _product


@dataclass(frozen=True)
class _Tile:
    """Where a tile of sums goes."""

    emit: Emitter
    panels: int
    sums: Any
    out: Any
    pitch: Any
    rows: Any
    columns: Any
    rounds: Any

    def held(self) -> list[list[Any]]:
        """Return where each vector of the sums is kept."""
        return [
            [
                self.emit.builder.add(self.sums, number(row * _SUM_PITCH + 4 * LINES * part))
                for part in range(self.panels)
            ]
            for row in range(TILE_ROWS)
        ]

    def prefetch(self, more: Any, last: Any) -> None:
        """Ask for what is read and written after the product, which takes longer than memory does."""
        builder = self.emit.builder
        with builder.if_then(more):
            for place in (place for row in self.held() for place in row):
                self.emit.prefetch(place, True)
        with builder.if_then(last):
            for row in range(TILE_ROWS):
                start = self.emit.after(self.out, row, self.pitch)
                for part in range(0, self.panels * LINES * 2, _LINE):
                    self.emit.prefetch(builder.add(start, number(part)), True)

    def store(self, totals: list[list[Any]], last: Any) -> None:
        builder = self.emit.builder
        with builder.if_else(last) as (then, otherwise):
            with otherwise:
                for row, places in zip(totals, self.held(), strict=True):
                    for total, place in zip(row, places, strict=True):
                        self.emit.store(total, place, 4)
            with then, builder.if_else(self.rounds) as (narrow, single):
                for branch, size in ((narrow, 2), (single, 4)):
                    with branch:
                        self._give(totals, size)

    def _give(self, totals: list[list[Any]], size: int) -> None:
        builder = self.emit.builder
        masks = [
            self.emit.lanes_below(builder.sub(self.columns, number(part * LINES)), LINES) for part in range(self.panels)
        ]
        for index, row in enumerate(totals):
            with builder.if_then(builder.icmp_signed(">", self.rows, number(index))):
                start = self.emit.after(self.out, index, self.pitch)
                for part, (total, mask) in enumerate(zip(row, masks, strict=True)):
                    value = self.emit.rounded(total) if size == 2 else total
                    self.emit.store_some(value, builder.add(start, number(part * LINES * size)), mask)


def _product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    pairs, a, b, panel, sums, out, pitch, rows, columns, more, last, rounds = arguments
    after = builder.append_basic_block()
    panels = builder.sdiv(builder.add(columns, number(LINES - 1)), number(LINES))
    chosen = builder.switch(panels, after)
    for count in range(1, TILE_PANELS + 1):
        block = builder.append_basic_block()
        chosen.add_case(number(count), block)
        with builder.goto_block(block):
            tile = _Tile(Emitter(builder), count, sums, out, pitch, rows, columns, rounds)
            tile.prefetch(more, last)
            totals = _accumulate(tile.emit, count, pairs, a, b, panel)
            tile.store(_added(tile.emit, totals, tile.held(), more), last)
            builder.branch(after)
    builder.position_at_end(after)
    return context.get_dummy_value()


def _added(emit: Emitter, totals: list[list[Any]], held: list[list[Any]], more: Any) -> list[list[Any]]:
    builder = emit.builder
    before, adding, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.cbranch(more, adding, after)
    builder.position_at_end(adding)
    added = [
        [builder.fadd(emit.load(SUMS, place, 4), total) for total, place in zip(*pair, strict=True)]
        for pair in zip(totals, held, strict=True)
    ]
    builder.branch(after)
    builder.position_at_end(after)
    found = []
    for row, new in zip(totals, added, strict=True):
        chosen = [builder.phi(SUMS) for _ in row]
        for one, total, value in zip(chosen, row, new, strict=True):
            one.add_incoming(total, before)
            one.add_incoming(value, adding)
        found.append(chosen)
    return found


def _accumulate(emit: Emitter, panels: int, pairs: Any, a: Any, b: Any, panel: Any) -> list[list[Any]]:
    """Emit the loop over the depth; return the sums that it leaves in registers."""
    builder = emit.builder
    entry, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    starts = [emit.after(b, part, panel) for part in range(panels)]
    builder.branch(loop)
    builder.position_at_end(loop)
    offset = builder.phi(INDEX)
    offset.add_incoming(number(0), entry)
    sums = [[builder.phi(SUMS) for _ in range(panels)] for _ in range(TILE_ROWS)]
    vectors = [builder.bitcast(emit.load(PAIRS, builder.add(start, offset), 64), FACTORS) for start in starts]
    totals = []
    line = builder.add(a, offset)
    for index, row in enumerate(sums):
        pair = emit.spread(emit.load(PAIR, builder.add(line, number(4 * index)), 4), LINES)
        factor = builder.bitcast(pair, FACTORS)
        totals.append([emit.multiply_add(total, factor, vector) for total, vector in zip(row, vectors, strict=True)])
    following = builder.add(offset, number(4 * LINES))
    offset.add_incoming(following, loop)
    for row, new in zip(sums, totals, strict=True):
        for total, value in zip(row, new, strict=True):
            total.add_incoming(ir.Constant(SUMS, None), entry)
            total.add_incoming(value, loop)
    end = builder.mul(pairs, number(4 * LINES))
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
    builder.position_at_end(after)
    return totals
