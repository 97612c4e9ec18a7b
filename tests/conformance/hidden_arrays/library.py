"""An array library on `HiddenArray` with the names and the keywords of CuPy 14, and none that it lacks."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.conformance.hidden_arrays.array import (
    HiddenArray,
    LeakError,
    UnknownToCupyError,
    check_keywords,
    device,
    is_pinned,
    perform,
)
from tests.conformance.hidden_arrays.ipc import memory_seen, runtime_of_blocks
from tests.conformance.hidden_arrays.stream import DEVICE

_OF_ONE = (
    "absolute arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil conjugate cos cosh exp exp2 expm1 floor",
    "invert isfinite isinf isnan log log10 log1p log2 logical_not negative reciprocal rint sign signbit sin",
    "sinh sqrt square tan tanh trunc",
)
_OF_TWO = (
    "add arctan2 bitwise_and bitwise_or bitwise_xor divide equal floor_divide fmax fmin fmod greater greater_equal",
    "hypot left_shift less less_equal logaddexp logical_and logical_or logical_xor maximum minimum mod multiply",
    "not_equal power remainder right_shift subtract true_divide",
)
_UNIVERSAL = " ".join((*_OF_ONE, *_OF_TWO)).split()
_AT = ("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
_REDUCES = ("add", "multiply")
_FUNCTIONS = {
    "argmax": "a axis dtype out keepdims",
    "argmin": "a axis dtype out keepdims",
    "argsort": "a axis kind",
    "broadcast_to": "array shape",
    "clip": "a a_min a_max out",
    "concatenate": "tup axis out dtype casting",
    "copyto": "dst src casting where",
    "cumsum": "a axis dtype out",
    "dot": "a b out",
    "moveaxis": "a source destination",
    "prod": "a axis dtype out keepdims",
    "split": "ary indices_or_sections axis",
    "stack": "tup axis out dtype casting",
    "sum": "a axis dtype out keepdims",
    "max": "a axis out keepdims",
    "min": "a axis out keepdims",
    "take_along_axis": "a indices axis",
    "where": "condition x y",
}
_NEW = ("zeros", "ones", "arange")


class UniversalFunction:
    """One of CuPy's universal functions, with the methods that it implements."""

    def __init__(self, name: str) -> None:
        self._function = getattr(np, name)
        self.__name__ = name

    def __call__(self, *given: Any, **named: Any) -> Any:
        check_keywords(self.__name__, named, ("out", "dtype", "casting", "where"))
        return _called(self._function, given, named)

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Sum or multiply; others raise, as CuPy's do."""
        if self.__name__ not in _REDUCES:
            raise UnknownToCupyError(f"`{self.__name__}.reduce` is not supported yet")
        named = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
        return _called(self._function.reduce, (array,), named)

    def at(self, array: Any, indices: Any, values: Any) -> None:
        """Add at indices; the device adds in no order."""
        if self.__name__ not in _AT:
            raise UnknownToCupyError(f"`{self.__name__}.at` is not supported yet")
        perform(self._function.at, (array, indices, values), {}, array)


def _called(function: Any, given: Any, named: Any) -> Any:
    out = named.get("out")
    written = out if out is not None else named.get("dst", given[0]) if function is np.copyto else ()
    found = perform(function, given, named, written)
    if out is not None:
        return out
    return [device(one) for one in found] if isinstance(found, list) else device(found)


def _function(name: str, keywords: str) -> Any:
    def call(*given: Any, **named: Any) -> Any:
        check_keywords(name, named, keywords.split())
        if name == "where" and len(given) != 3:
            raise LeakError("where with one argument: how many places there are the host has to wait for")
        if name == "argsort" and named.pop("kind", "stable") not in (None, "stable"):
            raise UnknownToCupyError("argsort sorts stably only")
        if name == "argsort":
            named["kind"] = "stable"
        return _called(getattr(np, name), given, named)

    return call


def _matmul(x: Any, y: Any, out: Any = None) -> Any:
    if max(x.ndim, y.ndim) > 2 and x.dtype.kind == "V":
        raise UnknownToCupyError("matmul of more than two dims takes no bfloat16")
    return _called(np.matmul, (x, y), {} if out is None else {"out": out})


def _empty(shape: Any, dtype: Any = float, order: str = "C") -> HiddenArray:
    """Return memory in which floats are no numbers."""
    made = np.empty(shape, dtype, order)
    DEVICE.allocate(made.nbytes)
    DEVICE.find_room(made.nbytes)
    made.reshape(-1).view(np.uint8)[...] = 0xFF
    return HiddenArray(made)


def _asarray(value: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> Any:
    if isinstance(value, HiddenArray):
        return device(perform(np.asarray, (value, dtype), {"order": order}))
    if hasattr(value, "__cuda_array_interface__"):
        return HiddenArray(memory_seen(value.__cuda_array_interface__))
    DEVICE.must_not_capture("the host's memory is copied")
    if isinstance(value, np.ndarray) and not blocking and value.size and is_pinned(value):
        DEVICE.copies_from(value)
    DEVICE.find_room(np.asarray(value).nbytes)
    made = HiddenArray(np.array(value, dtype, order=order or "K"))
    DEVICE.current.uses([made.hidden], [made.hidden])
    return made


def _new(make: Any) -> Any:
    def call(*given: Any, **named: Any) -> HiddenArray:
        made = make(*given, **named)
        DEVICE.allocate(made.nbytes)
        return HiddenArray(made)

    return call


@contextmanager
def _using_allocator(allocator: Any) -> Iterator[None]:
    before, DEVICE.allocator = DEVICE.allocator, allocator
    try:
        yield
    finally:
        DEVICE.allocator = before


def _shares_memory(one: Any, other: Any, max_work: Any = None) -> bool:
    return bool(np.shares_memory(one.hidden, other.hidden))


def _as_strided(x: Any, shape: Any = None, strides: Any = None) -> HiddenArray:
    return HiddenArray(np.lib.stride_tricks.as_strided(x.hidden, shape, strides))


class _Device:
    compute_capability = "90"

    def __init__(self, number: int) -> None:
        self.id = number

    def use(self) -> None:
        """Do nothing: there is one."""


def shared_gpu() -> bytes:
    """Return the number of a device that all ranks share."""
    return bytes(16)


def own_gpu() -> bytes:
    """Return the number of a device that a rank has for itself."""
    return os.getpid().to_bytes(8) + threading.get_ident().to_bytes(8)


def hidden_library(uuid: Callable[[], bytes] = shared_gpu) -> ModuleType:
    """Return a module that takes the place of ``cupy``."""
    made: Any = ModuleType("cupy")
    made.ndarray = HiddenArray
    for name in _UNIVERSAL:
        setattr(made, name, UniversalFunction(name))
    for name, keywords in _FUNCTIONS.items():
        setattr(made, name, _function(name, keywords))
    for name in _NEW:
        setattr(made, name, _new(getattr(np, name)))
    made.matmul, made.empty, made.asarray, made.shares_memory = _matmul, _empty, _asarray, _shares_memory
    made.empty_like = lambda x, dtype=None: _empty(x.shape, dtype or x.dtype)
    made.take = lambda a, indices, axis=None, out=None: a.take(indices, axis, out)
    made.ascontiguousarray = lambda a: a if a.hidden.flags.c_contiguous else a.copy()
    made.asnumpy = _asnumpy
    made.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=_as_strided))
    made.cuda = SimpleNamespace(
        is_available=lambda: True,
        Device=_Device,
        runtime=SimpleNamespace(
            getDeviceCount=lambda: 1,
            streamCaptureModeThreadLocal=1,
            getDeviceProperties=lambda number: {"uuid": uuid()},
            memGetInfo=lambda: (DEVICE.room, DEVICE.room),
            deviceGetPCIBusId=lambda number: uuid().hex(),
            streamQuery=lambda stream: DEVICE.fault,
            check_status=_check_status,
            **runtime_of_blocks(),
        ),
        function=SimpleNamespace(Module=None),
        Stream=DEVICE.stream,
        Event=TimedEvent,
        get_elapsed_time=lambda first, last: last.work - first.work,
        get_current_stream=lambda: DEVICE.current,
        using_allocator=_using_allocator,
        alloc_pinned_memory=bytearray,
    )
    return made  # type: ignore[no-any-return]


class TimedEvent:
    """An event by which a device's time is taken: each of its calls takes a millisecond."""

    def __init__(self) -> None:
        self.work = 0

    def record(self, stream: Any) -> None:
        """Note how much has been given."""
        self.work = DEVICE.launches
        self._stream = stream

    def synchronize(self) -> None:
        """Let the host wait."""
        self._stream.synchronize()


def _check_status(status: int) -> None:
    if status:
        raise RuntimeError(f"cudaError {status}")


def _asnumpy(array: Any, order: str = "C", out: Any = None) -> Any:
    caller = sys._getframe(1).f_globals["__name__"]
    if caller != "mpiparallel.backend.cupy_backend":
        raise LeakError(f"{caller} reads a device's array")
    return array.get(order=order, out=out)
