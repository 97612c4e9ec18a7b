"""What numba makes of the source of a loop: machine code that is called without numba.

Needs numba, which takes half a second to load: import this module where something is compiled only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.extending import intrinsic
from numba.np import arrayobj

from mpiparallel.backend.half_conversion import conversions
from mpiparallel.backend.machine_code import ENTRY, host_target


class Disjoint(CompilerBase):  # type: ignore[misc, unused-ignore]
    """The compiler, told that the arrays of a call do not overlap; else no loop with many is vectorised."""

    def define_pipelines(self) -> list[Any]:
        self.state.flags.noalias = True
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


def compiled_loop(source: str, kinds: Sequence[str]) -> bytes:
    """Return an object file: the function ``kernel`` of a source, and what calls it with arguments of these kinds.

    It calls it with what it finds in an array of integers: of an array of one dim its address and its length.
    """
    names = {**_names(), "__name__": __name__}
    exec(compile(source, "<mpiparallel loop>", "exec"), names)
    function = numba.njit(
        error_model="numpy",
        fastmath={"contract"},
        nogil=True,
        no_cfunc_wrapper=True,
        no_cpython_wrapper=True,
        pipeline_class=Disjoint,
    )(names["kernel"])
    result = function.get_compile_result(types.void(*map(_type_of, kinds)))
    module = binding.parse_assembly(result.library.get_llvm_str())
    module.link_in(binding.parse_assembly(str(_entry(result))))
    return bytes(host_target().emit_object(module))


def _type_of(kind: str) -> Any:
    if kind == "int":
        return types.int64
    dtype, *unaligned = kind.split()
    return types.Array(numba.from_dtype(np.dtype(dtype)), 1, "C", aligned=not unaligned)


def _entry(result: Any) -> Any:
    """Return the module of what calls a compiled function."""
    context, wide = result.target_context, ir.IntType(64)
    module = context.create_module(ENTRY)
    kernel = context.declare_function(module, result.fndesc)
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [wide.as_pointer()]), ENTRY)
    builder = ir.IRBuilder(function.append_basic_block())
    given = iter(range(2 * len(result.fndesc.argtypes)))

    def next_number() -> Any:
        return builder.load(builder.gep(function.args[0], [ir.Constant(wide, next(given))]))

    arguments = [
        _array(context, builder, kind, next_number(), next_number()) if isinstance(kind, types.Array) else next_number()
        for kind in result.fndesc.argtypes
    ]
    status, _ = context.call_conv.call_function(
        builder, kernel, result.fndesc.restype, result.fndesc.argtypes, arguments
    )
    builder.ret(status.code)
    return module


def _array(context: Any, builder: Any, kind: Any, address: Any, length: Any) -> Any:
    """Emit an array of numba at an address."""
    array = context.make_array(kind)(context, builder)
    item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    data = builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer())
    arrayobj.populate_array(array, data=data, shape=[length], strides=[item], itemsize=item, meminfo=None)
    return array._getvalue()


@cache
def _names() -> dict[str, Any]:
    """Return what the source of a loop may use."""
    maximum, minimum, bits, single = _intrinsics()
    inlined = numba.njit(error_model="numpy", fastmath={"contract"}, forceinline=True)
    loosely = numba.njit(error_model="numpy", fastmath={"reassoc", "contract", "nsz"}, forceinline=True)
    exp_single = inlined(_make_exp(bits, single, maximum, minimum))
    return {
        "int8": np.int8,
        "int16": np.int16,
        "int32": np.int32,
        "int64": np.int64,
        "f4": np.float32,
        "f8": np.float64,
        "nan": np.nan,
        "inf": np.inf,
        "np": np,
        "math": math,
        "exp_f8": np.exp,
        "tanh_f8": np.tanh,
        "exp_f4": exp_single,
        "tanh_f4": inlined(_make_tanh(exp_single)),
        "maximum": maximum,
        "minimum": minimum,
        "add_up": loosely(_add_up),
        **conversions(),
    }


def _add_up(total: Any, term: Any) -> Any:
    # Only sums may be reordered: that lets them be vectorised, and all else stays as it is written.
    return total + term


def _make_exp(bits: Any, single: Any, maximum: Any, minimum: Any) -> Any:
    f4, i4 = np.float32, np.int32
    lowest, highest = f4(-104.0), f4(89.0)
    per_octave, rounder = f4(1.4426950408889634), f4(12582912.0)
    octave_high, octave_low = f4(0.693145751953125), f4(1.4286068203094172e-06)
    c2, c3, c4, c5, c6, c7 = (f4(c) for c in (0.5, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040))
    one, bias, zero_bits = f4(1.0), i4(127), i4(0x4B400000)

    def exp(x: Any) -> Any:
        """Return e to the power of x: 2 ** n times the exponential of a rest of at most ln(2) / 2, by Taylor."""
        x = minimum(maximum(x, lowest), highest)
        shifted = x * per_octave + rounder
        n = i4(bits(shifted) - zero_bits)
        octaves = shifted - rounder
        rest = (x - octaves * octave_high) - octaves * octave_low
        tail = c2 + rest * (c3 + rest * (c4 + rest * (c5 + rest * (c6 + rest * c7))))
        value = one + (rest + rest * rest * tail)
        half = i4(n >> i4(1))
        return (value * single(i4((half + bias) << i4(23)))) * single(i4((n - half + bias) << i4(23)))

    return exp


def _make_tanh(exp: Any) -> Any:
    f4 = np.float32
    border, zero, one, two = f4(0.55), f4(0.0), f4(1.0), f4(2.0)
    c3, c5, c7, c9, c11 = (f4(c) for c in (-1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925))
    c13, c15 = f4(21844 / 6081075), f4(-929569 / 638512875)

    def tanh(x: Any) -> Any:
        """Return the hyperbolic tangent: Taylor's polynomial where x is small, else by the exponential."""
        square = x * x
        tail = c9 + square * (c11 + square * (c13 + square * c15))
        small = x + x * square * (c3 + square * (c5 + square * (c7 + square * tail)))
        size = abs(x)
        large = one - two / (exp(two * size) + one)
        return small if size < border else (-large if x < zero else large)

    return tanh


def _intrinsics() -> tuple[Any, Any, Any, Any]:
    """Return ``maximum`` and ``minimum`` with NumPy's NaN, and float32 as int32 bits and back."""

    def extremum(name: str) -> Any:
        def typed(context: Any, x: Any, y: Any) -> Any:
            if not isinstance(x, types.Float) or x != y:
                return None

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                kind = arguments[0].type
                function = builder.module.declare_intrinsic(f"llvm.{name}", [kind], ir.FunctionType(kind, [kind, kind]))
                return builder.call(function, arguments)

            return x(x, y), generate

        return intrinsic(typed)

    def reinterpretation(source: Any, target: Any, kind: Any) -> Any:
        def typed(context: Any, x: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return builder.bitcast(arguments[0], kind)

            return target(source), generate

        return intrinsic(typed)

    bits = reinterpretation(types.float32, types.int32, ir.IntType(32))
    single = reinterpretation(types.int32, types.float32, ir.FloatType())
    return extremum("maximum"), extremum("minimum"), bits, single
