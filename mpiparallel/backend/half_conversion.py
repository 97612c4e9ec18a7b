"""Floats of 16 bits in compiled loops: numba has none, so a loop holds their bits, and converts them.

Needs numba: import this module where loops are compiled only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mpiparallel.backend.machine_code import converts_float16

_WORD, _BITS = ir.IntType(16), ir.IntType(32)
_INFINITE, _QUIET, _SIGN = 0x7F800000, 0x7FC0, 0x8000

Emit = Callable[[Any, Any], Any]


def conversions() -> dict[str, Any]:
    """Return the functions of loops by name: from the bits of a dtype to float32, and back, rounded to the nearest."""
    found = {
        "from_bfloat16": _conversion(types.uint16, types.float32, _widen_bfloat16),
        "to_bfloat16": _conversion(types.float32, types.uint16, _round_bfloat16),
    }
    if converts_float16():
        found["from_float16"] = _conversion(types.uint16, types.float32, _widen_float16)
        found["to_float16"] = _conversion(types.float32, types.uint16, _round_float16)
    return found


def _conversion(source: Any, target: Any, emit: Emit) -> Any:
    def typed(context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, arguments[0])

        return target(source), generate

    return intrinsic(typed)


def _widen_bfloat16(builder: Any, x: Any) -> Any:
    return builder.bitcast(builder.shl(builder.zext(x, _BITS), _number(16)), ir.FloatType())


def _round_bfloat16(builder: Any, x: Any) -> Any:
    """Emit the rounding of ml_dtypes: a tie goes to the even one, and NaN has no bits of its own but the sign."""
    bits = builder.bitcast(x, _BITS)
    upper = builder.lshr(bits, _number(16))
    half = builder.add(builder.and_(upper, _number(1)), _number(0x7FFF))
    rounded = builder.lshr(builder.add(bits, half), _number(16))
    quiet = builder.or_(builder.and_(upper, _number(_SIGN)), _number(_QUIET))
    size = builder.and_(bits, _number(0x7FFFFFFF))
    is_nan = builder.icmp_unsigned(">", size, _number(_INFINITE))
    return builder.trunc(builder.select(is_nan, quiet, rounded), _WORD)


def _widen_float16(builder: Any, x: Any) -> Any:
    return builder.fpext(builder.bitcast(x, ir.HalfType()), ir.FloatType())


def _round_float16(builder: Any, x: Any) -> Any:
    return builder.bitcast(builder.fptrunc(x, ir.HalfType()), _WORD)


def _number(value: int) -> Any:
    return ir.Constant(_BITS, value)
