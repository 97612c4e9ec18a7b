"""Loops compiled by numba, an optional extra: loaded when the first loop is bound, and nowhere else."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from mpiparallel.backend.cache_folder import cache_folder, keep

_CACHE_FAILURES = (OSError, EOFError, ImportError, AttributeError, ValueError, pickle.UnpicklingError)
_OFF = ("0", "off", "no", "false")


def wanted(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether loops may be compiled: not where ``MPIPARALLEL_JIT`` is 0, off, no or false.

    >>> wanted({"MPIPARALLEL_JIT": "0"})
    False
    """
    return variables.get("MPIPARALLEL_JIT", "").lower() not in _OFF


@dataclass
class Compiler:
    """What turns the source of a function named ``kernel`` into machine code, once for each source."""

    decorate: Callable[..., Any]
    kept: Callable[[Any], Any]
    type_of: Callable[[Any], Any]
    names: dict[str, Any]
    _compiled: dict[str, Any] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    def bind(self, source: str, arguments: tuple[Any, ...]) -> Callable[[], object]:
        """Return a call of the compiled function with these arguments."""
        types = tuple(map(self.type_of, arguments))
        with self._lock:
            if source not in self._compiled:
                self._compiled[source] = self._function(source, _file_of(source))
            try:
                self._compiled[source].compile(types)
            except _CACHE_FAILURES:
                # The disk is full, or a kept loop is damaged: one that is not kept does as well.
                self._compiled[source] = self._function(source, None)
                self._compiled[source].compile(types)
            function = self._compiled[source]
        return partial(function, *arguments)

    def _function(self, source: str, path: Path | None) -> Any:
        names = {**self.names, "__name__": __name__}
        exec(compile(source, "<mpiparallel loop>" if path is None else str(path), "exec"), names)
        function = self.decorate(names["kernel"])
        try:
            return function if path is None else self.kept(function)
        except RuntimeError:
            return function


def is_there() -> bool:
    """Return whether loops would be compiled, without loading what compiles them."""
    return wanted() and _is_installed()


@cache
def _is_installed() -> bool:
    return find_spec("numba") is not None


def compiler() -> Compiler | None:
    """Return the compiler; None where numba is not installed or not wanted."""
    return _load() if wanted() else None


def _file_of(source: str) -> Path | None:
    """Return a file with the source, by which the compiled loop is found again; None where none can be written."""
    digest = hashlib.blake2b(source.encode() + _own_source(), digest_size=16).hexdigest()
    path = cache_folder() / f"loop_{digest}.py"
    return path if _is_own(path) or keep(path, source.encode()) else None


def _is_own(path: Path) -> bool:
    try:
        return path.exists() and path.parent.stat().st_uid == os.getuid()
    except OSError:
        return False


@cache
def _own_source() -> bytes:
    # What is written below, and how 16 bits are converted, is part of each compiled loop.
    own = Path(__file__)
    return own.read_bytes() + own.with_name("half_conversion.py").read_bytes()


@cache
def _load() -> Compiler | None:
    try:
        import numba  # an optional extra, and slow to import: only when a loop is bound
        from numba.core.compiler import CompilerBase, DefaultPassBuilder

        from mpiparallel.backend.kept_code import kept
    except ImportError:
        return None

    class Disjoint(CompilerBase):  # type: ignore[misc, unused-ignore]
        """The compiler, told that the arrays of a call do not overlap; else no loop with many is vectorised."""

        def define_pipelines(self) -> list[Any]:
            self.state.flags.noalias = True
            return [DefaultPassBuilder.define_nopython_pipeline(self.state)]

    decorate = partial(
        numba.njit,
        error_model="numpy",
        fastmath={"contract"},
        nogil=True,
        no_cfunc_wrapper=True,
        pipeline_class=Disjoint,
    )
    return Compiler(decorate, kept, numba.typeof, _names(numba))


def _names(numba: Any) -> dict[str, Any]:
    """Return what the source of a loop may use."""
    from mpiparallel.backend.half_conversion import conversions  # needs numba

    maximum, minimum, bits, single = _intrinsics(numba)
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


def _intrinsics(numba: Any) -> tuple[Any, Any, Any, Any]:
    """Return ``maximum`` and ``minimum`` with NumPy's NaN, and float32 as int32 bits and back."""
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

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
