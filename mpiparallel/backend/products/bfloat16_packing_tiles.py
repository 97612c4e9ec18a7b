"""Packing of matrices of bfloat16: for each pair of the depth, the pairs of 16 lines beside each other.

Matrices are given by addresses; a panel has 16 lines. Needs numba: import this module from compiled loops only.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from mpiparallel.backend.products.bfloat16_vector_tiles import LINES, PAIRS, ROW, WORDS, Emitter, number
from mpiparallel.backend.register_tiles import lane_mask, transposed

SIZE = types.intp
_AHEAD = 128
"""Bytes that are asked of memory before they are read: processors see no order in lines that are far apart."""


@intrinsic
def address(typing, array):
    """Return where the numbers of an array are."""
    return SIZE(array), _address


@intrinsic
def pack_pairs(typing, target, panel, upper, lower, lines, both):
    """Pack up to 32 lines of a pair of rows at two addresses, in two panels that are ``panel`` bytes apart.

    Without ``both`` the lower row is taken as zeros. The second panel is left alone where it has no line.
    """
    return types.void(SIZE, SIZE, SIZE, SIZE, SIZE, types.boolean), _pack_pairs


@intrinsic
def pack_square(typing, target, source, pitch, lines, depth):
    """Pack up to 16 pairs of up to 16 lines that are ``pitch`` bytes apart; ``depth`` numbers count, the rest are 0."""
    return types.void(SIZE, SIZE, SIZE, SIZE, SIZE), _pack_square


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data = make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.ptrtoint(data, ir.IntType(64))


def _pack_pairs(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    target, panel, upper, lower, lines, both = arguments
    emit = Emitter(builder)
    second = builder.add(target, panel)
    whole = builder.and_(builder.icmp_signed(">=", lines, number(2 * LINES)), both)
    with builder.if_else(whole) as (quick, careful):
        with quick:
            rows = [emit.load(ROW, one, 2) for one in (upper, lower)]
            for one in (upper, lower):
                emit.prefetch(builder.add(one, number(_AHEAD)), False)
            for start, place in ((0, target), (LINES, second)):
                lanes = [start + lane // 2 + lane % 2 * 2 * LINES for lane in range(2 * LINES)]
                emit.store(builder.shuffle_vector(*rows, lane_mask(lanes)), place, 64)
        with careful:
            _pack_panel(emit, target, upper, lower, lines, both)
            with builder.if_then(builder.icmp_signed(">", lines, number(LINES))):
                above, below = (builder.add(one, number(2 * LINES)) for one in (upper, lower))
                _pack_panel(emit, second, above, below, builder.sub(lines, number(LINES)), both)
    return context.get_dummy_value()


def _pack_panel(emit: Emitter, target: Any, upper: Any, lower: Any, lines: Any, both: Any) -> None:
    builder = emit.builder
    mask = emit.lanes_below(lines, LINES)
    second = builder.and_(mask, emit.spread(both, LINES))
    low = builder.zext(emit.load_some(WORDS, upper, mask), PAIRS)
    high = builder.shl(builder.zext(emit.load_some(WORDS, lower, second), PAIRS), ir.Constant(PAIRS, [16] * LINES))
    emit.store(builder.or_(low, high), target, 64)


def _pack_square(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    target, source, pitch, lines, depth = arguments
    emit = Emitter(builder)
    starts = [emit.after(source, line, pitch) for line in range(LINES)]
    whole = builder.and_(
        builder.icmp_signed(">=", lines, number(LINES)), builder.icmp_signed(">=", depth, number(2 * LINES))
    )
    with builder.if_else(whole) as (quick, careful):
        with quick:
            rows = [emit.load(PAIRS, start, 2) for start in starts]
            for start in starts:
                emit.prefetch(builder.add(start, number(_AHEAD)), False)
            _store_square(emit, target, rows)
        with careful:
            rows = []
            for line, start in enumerate(starts):
                count = builder.select(builder.icmp_signed(">", lines, number(line)), depth, number(0))
                words = emit.load_some(ROW, start, emit.lanes_below(count, 2 * LINES))
                rows.append(builder.bitcast(words, PAIRS))
            _store_square(emit, target, rows)
    return context.get_dummy_value()


def _store_square(emit: Emitter, target: Any, rows: list[Any]) -> None:
    for place, row in enumerate(transposed(emit.builder, rows)):
        emit.store(row, emit.builder.add(target, number(4 * LINES * place)), 64)
