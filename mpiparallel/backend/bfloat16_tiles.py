"""Blocks of bfloat16 numbers in a processor's registers: products with AVX512-BF16, and packing for them.

The instruction multiplies pairs: to each of 16 sums in float32 it adds two products, of two numbers that follow each
other in the depth. So matrices are packed as panels of 16 lines: for each pair of the depth, the pairs of 16 lines
beside each other. Arrays are given by addresses. Needs numba and that instruction: import this module from compiled
loops only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mpiparallel.backend.register_tiles import transposed

LINES = 16
"""Lines of a panel: the sums in one register."""
TILE_ROWS = 8
TILE_PANELS = 3
"""A tile has 8 x 48 sums: 24 of 32 registers, 3 for columns, the rest for a row's pair."""

_SIZE = types.intp
_WORD, _PAIR, _INDEX = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_SUMS = ir.VectorType(ir.FloatType(), LINES)
_WORDS = ir.VectorType(_WORD, LINES)
_PAIRS = ir.VectorType(_PAIR, LINES)
_ROW = ir.VectorType(_WORD, 2 * LINES)


class _BFloat16(ir.Type):  # type: ignore[misc, unused-ignore]
    """LLVM's bfloat, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat16)

    def __hash__(self) -> int:
        return hash(_BFloat16)


_FACTORS = ir.VectorType(_BFloat16(), 2 * LINES)


@intrinsic
def pack_pair(typing, target, upper, lower, lines, both):
    """Pack up to 16 lines of a pair of rows at two addresses; without ``both`` the lower one is taken as zeros."""
    return types.void(_SIZE, _SIZE, _SIZE, _SIZE, types.boolean), _pack_pair


@intrinsic
def pack_square(typing, target, source, pitch, lines, depth):
    """Pack up to 16 pairs of up to 16 lines that are ``pitch`` bytes apart; ``depth`` numbers count, the rest are 0."""
    return types.void(_SIZE, _SIZE, _SIZE, _SIZE, _SIZE), _pack_square


@intrinsic
def product(typing, pairs, a, b, panel, sums, pitch, out, out_pitch, rows, columns, more, last, rounds):
    """Multiply up to 8 packed rows by up to 48 packed columns, whose panels are ``panel`` bytes apart.

    With ``more`` the tile of float32 at ``sums`` is added. With ``last`` the tile goes to ``out``, as bfloat16 where it
    ``rounds``, else to ``sums``.
    """
    return types.void(*[_SIZE] * 10, *[types.boolean] * 3), _product


@dataclass(frozen=True)
class _Emitter:
    """Emits what works on vectors at addresses."""

    builder: Any

    def after(self, address: Any, count: int, size: Any) -> Any:
        """Return the address ``count`` times ``size`` bytes further."""
        return self.builder.add(address, self.builder.mul(size, _number(count)))

    def lanes_below(self, count: Any, lanes: int) -> Any:
        """Return a mask of the first ``count`` lanes."""
        vector = ir.VectorType(_INDEX, lanes)
        return self.builder.icmp_signed("<", ir.Constant(vector, list(range(lanes))), self.spread(count, lanes))

    def spread(self, number: Any, lanes: int) -> Any:
        """Return a vector of one number."""
        undefined = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, number, ir.Constant(_PAIR, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_PAIR, lanes), [0] * lanes))

    def load(self, kind: Any, address: Any, align: int) -> Any:
        value = self.builder.load(self.builder.inttoptr(address, kind.as_pointer()))
        value.align = align
        return value

    def store(self, value: Any, address: Any, align: int) -> None:
        self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer())).align = align

    def load_some(self, kind: Any, address: Any, mask: Any) -> Any:
        """Return a vector of 16-bit words, 0 where the mask is not; there nothing is read."""
        pointer = self.builder.inttoptr(address, kind.as_pointer())
        name = f"llvm.masked.load.v{kind.count}i16.p0"
        return self.call(name, kind, [pointer, ir.Constant(_PAIR, 2), mask, ir.Constant(kind, None)])

    def store_some(self, value: Any, address: Any, mask: Any) -> None:
        element = "f32" if value.type == _SUMS else "i16"
        pointer = self.builder.inttoptr(address, value.type.as_pointer())
        align = ir.Constant(_PAIR, 4 if value.type == _SUMS else 2)
        self.call(f"llvm.masked.store.v{LINES}{element}.p0", ir.VoidType(), [value, pointer, align, mask])

    def call(self, name: str, result: Any, arguments: list[Any]) -> Any:
        module = self.builder.module
        function = module.globals.get(name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(result, [one.type for one in arguments]), name)
        return self.builder.call(function, arguments)

    def multiply_add(self, sums: Any, row: Any, column: Any) -> Any:
        return self.call("llvm.x86.avx512bf16.dpbf16ps.512", _SUMS, [sums, row, column])

    def rounded(self, sums: Any) -> Any:
        """Return float32 as bfloat16, to the nearest, a tie to even. The instruction for it has no denormals."""
        builder = self.builder
        bits = builder.bitcast(sums, _PAIRS)

        def each(number: int) -> Any:
            return ir.Constant(_PAIRS, [number] * LINES)

        odd = builder.and_(builder.lshr(bits, each(16)), each(1))
        nearest = builder.lshr(builder.add(bits, builder.add(odd, each(0x7FFF))), each(16))
        quiet = builder.or_(builder.and_(builder.lshr(bits, each(16)), each(0x8000)), each(0x7FC0))
        chosen = builder.select(builder.fcmp_unordered("uno", sums, sums), quiet, nearest)
        return builder.trunc(chosen, _WORDS)


def _pack_pair(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    target, upper, lower, lines, both = arguments
    emit = _Emitter(builder)
    mask = emit.lanes_below(lines, LINES)
    second = builder.and_(mask, emit.spread(both, LINES))
    low = builder.zext(emit.load_some(_WORDS, upper, mask), _PAIRS)
    high = builder.shl(builder.zext(emit.load_some(_WORDS, lower, second), _PAIRS), ir.Constant(_PAIRS, [16] * LINES))
    emit.store(builder.or_(low, high), target, 64)
    return context.get_dummy_value()


def _pack_square(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    target, source, pitch, lines, depth = arguments
    emit = _Emitter(builder)
    rows = []
    for line in range(LINES):
        count = builder.select(builder.icmp_signed(">", lines, _number(line)), depth, _number(0))
        words = emit.load_some(_ROW, emit.after(source, line, pitch), emit.lanes_below(count, 2 * LINES))
        rows.append(builder.bitcast(words, _PAIRS))
    for place, row in enumerate(transposed(builder, rows)):
        emit.store(row, builder.add(target, _number(64 * place)), 64)
    return context.get_dummy_value()


def _product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    columns = arguments[9]
    after = builder.append_basic_block()
    panels = builder.sdiv(builder.add(columns, _number(LINES - 1)), _number(LINES))
    chosen = builder.switch(panels, after)
    for count in range(1, TILE_PANELS + 1):
        block = builder.append_basic_block()
        chosen.add_case(_number(count), block)
        with builder.goto_block(block):
            _tile(_Emitter(builder), count, *arguments)
            builder.branch(after)
    builder.position_at_end(after)
    return context.get_dummy_value()


def _tile(
    emit: _Emitter,
    panels: int,
    pairs: Any,
    a: Any,
    b: Any,
    panel: Any,
    sums: Any,
    pitch: Any,
    out: Any,
    out_pitch: Any,
    rows: Any,
    columns: Any,
    more: Any,
    last: Any,
    rounds: Any,
) -> None:
    builder = emit.builder
    totals = _accumulate(emit, panels, pairs, a, b, panel)
    held = [
        [builder.add(emit.after(sums, row, pitch), _number(4 * LINES * part)) for part in range(panels)]
        for row in range(TILE_ROWS)
    ]
    totals = _added(emit, totals, held, more)
    with builder.if_else(last) as (then, otherwise):
        with otherwise:
            for row, places in zip(totals, held, strict=True):
                for total, place in zip(row, places, strict=True):
                    emit.store(total, place, 4)
        with then, builder.if_else(rounds) as (narrow, single):
            for branch, size in ((narrow, 2), (single, 4)):
                with branch:
                    _store_rows(emit, totals, out, out_pitch, rows, columns, size)


def _added(emit: _Emitter, totals: list[list[Any]], held: list[list[Any]], more: Any) -> list[list[Any]]:
    builder = emit.builder
    before, adding, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.cbranch(more, adding, after)
    builder.position_at_end(adding)
    added = [
        [builder.fadd(emit.load(_SUMS, place, 4), total) for total, place in zip(*pair, strict=True)]
        for pair in zip(totals, held, strict=True)
    ]
    builder.branch(after)
    builder.position_at_end(after)
    found = []
    for row, new in zip(totals, added, strict=True):
        chosen = [builder.phi(_SUMS) for _ in row]
        for one, total, value in zip(chosen, row, new, strict=True):
            one.add_incoming(total, before)
            one.add_incoming(value, adding)
        found.append(chosen)
    return found


def _store_rows(
    emit: _Emitter, totals: list[list[Any]], out: Any, pitch: Any, rows: Any, columns: Any, size: int
) -> None:
    builder = emit.builder
    masks = [emit.lanes_below(builder.sub(columns, _number(part * LINES)), LINES) for part in range(len(totals[0]))]
    for index, row in enumerate(totals):
        with builder.if_then(builder.icmp_signed(">", rows, _number(index))):
            start = emit.after(out, index, pitch)
            for part, (total, mask) in enumerate(zip(row, masks, strict=True)):
                value = emit.rounded(total) if size == 2 else total
                emit.store_some(value, builder.add(start, _number(part * LINES * size)), mask)


def _accumulate(emit: _Emitter, panels: int, pairs: Any, a: Any, b: Any, panel: Any) -> list[list[Any]]:
    """Emit the loop over the depth; return the sums that it leaves in registers."""
    builder = emit.builder
    entry, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    starts = [emit.after(b, part, panel) for part in range(panels)]
    builder.branch(loop)
    builder.position_at_end(loop)
    offset = builder.phi(_INDEX)
    offset.add_incoming(_number(0), entry)
    sums = [[builder.phi(_SUMS) for _ in range(panels)] for _ in range(TILE_ROWS)]
    vectors = [builder.bitcast(emit.load(_PAIRS, builder.add(start, offset), 64), _FACTORS) for start in starts]
    totals = []
    line = builder.add(a, offset)
    for index, row in enumerate(sums):
        pair = emit.spread(emit.load(_PAIR, builder.add(line, _number(4 * index)), 4), LINES)
        factor = builder.bitcast(pair, _FACTORS)
        totals.append([emit.multiply_add(total, factor, vector) for total, vector in zip(row, vectors, strict=True)])
    following = builder.add(offset, _number(4 * LINES))
    offset.add_incoming(following, loop)
    for row, new in zip(sums, totals, strict=True):
        for total, value in zip(row, new, strict=True):
            total.add_incoming(ir.Constant(_SUMS, None), entry)
            total.add_incoming(value, loop)
    end = builder.mul(pairs, _number(4 * LINES))
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
    builder.position_at_end(after)
    return totals


def _number(value: int) -> Any:
    return ir.Constant(_INDEX, value)
