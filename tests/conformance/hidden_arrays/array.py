"""An array in the memory of a device that does not exist: it has CuPy's interface, and hides its elements.

What reads an element on the host without saying so raises `LeakError`, as does what would wait for the device in
silence: a mask that picks, places where something holds. CuPy does some of that; each such place costs a wait.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from tests.conformance.hidden_arrays.stream import STREAM

_ALLOWED = ("mpiparallel.backend.cupy_backend", "mpiparallel.graph.tensor")
"""The modules that may copy from the device to the host."""


class LeakError(AssertionError):
    """Elements of a device's memory that the host has read, or waited for, without saying so."""


class UnknownToCupyError(AssertionError):
    """What NumPy does and CuPy does not."""


def host(value: Any) -> Any:
    """Return the hidden array of an argument, and a number as it is; refuse host arrays."""
    if isinstance(value, HiddenArray):
        return value.hidden
    if isinstance(value, np.ndarray):
        raise UnknownToCupyError(f"a host array of shape {value.shape} was given where the device's are wanted")
    if isinstance(value, (tuple, list)):
        return type(value)(host(one) for one in value)
    return value


def device(value: Any) -> Any:
    """Return a result as the device's: arrays and numbers alike."""
    return HiddenArray(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def _refuse(what: str) -> Any:
    def refused(self: HiddenArray, *_given: Any, **_named: Any) -> Any:
        raise LeakError(f"{what} of a device's array of shape {self.shape}: say so by Backend.to_host")

    return refused


def _passed_on(name: str, *keywords: str) -> Any:
    """Return the method of this name; ``keywords`` are those that CuPy knows."""

    def method(self: HiddenArray, *given: Any, **named: Any) -> Any:
        check_keywords(name, named, keywords)
        out = named.get("out")
        found = getattr(self.hidden, name)(*host(given), **{key: host(value) for key, value in named.items()})
        return out if out is not None else device(found)

    return method


def check_keywords(name: str, named: Any, known: Any) -> None:
    """Raise UnknownToCupyError for a keyword that the function has in NumPy alone."""
    unknown = set(named) - set(known)
    if unknown:
        raise UnknownToCupyError(f"{name} has no {sorted(unknown)} in CuPy")


def _operated(function: Any, turned: bool = False) -> Any:
    def operate(self: HiddenArray, *given: Any) -> Any:
        operands = (self.hidden, *host(given))
        return device(function(*(operands[::-1] if turned else operands)))

    return operate


def _operated_in_place(function: Any) -> Any:
    def operate(self: HiddenArray, other: Any) -> Any:
        function(self.hidden, host(other))
        return self

    return operate


class _Memory:
    """Where an array is."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.ptr = array.ctypes.data


class HiddenArray:
    """An array of which the host knows shape, dtype, strides and address only."""

    __slots__ = ("hidden",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, hidden: np.ndarray[Any, Any]) -> None:
        self.hidden = hidden

    @property
    def T(self) -> HiddenArray:  # noqa: N802
        """The transpose."""
        return HiddenArray(self.hidden.T)

    @property
    def data(self) -> _Memory:
        """Where it is."""
        return _Memory(self.hidden)

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **named: Any) -> Any:
        """Let NumPy's functions compute on the device, as CuPy does; host arrays beside it are refused."""
        if method != "__call__":
            return NotImplemented
        out = named.pop("out", (None,))[0]
        found = function(*host(given), **named, **({} if out is None else {"out": host(out)}))
        return device(found) if out is None else out

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, key: Any) -> HiddenArray:
        if any(_is_mask(one) for one in (key if isinstance(key, tuple) else (key,))):
            raise LeakError("a mask picks elements: how many they are the host has to wait for")
        return HiddenArray(np.asarray(self.hidden[host(key)]))

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is Ellipsis and isinstance(value, np.ndarray) and (value.shape, value.dtype) == (self.shape, self.dtype):
            # CuPy's one way to set an array from the host's memory by assignment.
            self.hidden[...] = value
            return
        masked = any(_is_mask(one) for one in (key if isinstance(key, tuple) else (key,)))
        if masked and getattr(value, "size", 1) != 1:
            raise LeakError("as many elements as a mask has: how many they are the host has to wait for")
        self.hidden[host(key)] = host(value)

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        """Return a copy on the host, for the backend alone."""
        caller = sys._getframe(1).f_globals["__name__"]
        if caller not in (*_ALLOWED, "tests.conformance.hidden_arrays.library"):
            raise LeakError(f"{caller} reads a device's array: only {_ALLOWED} may")
        STREAM.synchronize()
        if out is None:
            return self.hidden.copy(order=order)
        if out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise UnknownToCupyError(f"get into {out.shape} {out.dtype} from {self.shape} {self.dtype}")
        np.copyto(out, self.hidden)
        return out

    def take(self, indices: Any, axis: Any = None, out: Any = None) -> HiddenArray:
        """Pick along an axis; CuPy has no ``mode``, and takes indices modulo the extent."""
        found = self.hidden.take(host(indices), axis, mode="wrap")
        if out is None:
            return HiddenArray(found)
        np.copyto(out.hidden, found)
        return out  # type: ignore[no-any-return]


def _is_mask(key: Any) -> bool:
    return isinstance(key, HiddenArray) and key.dtype == np.bool_


_OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
_COMPARED = "lt le gt ge eq ne"
_METHODS = {
    "reshape": ("order",),
    "transpose": (),
    "swapaxes": (),
    "view": ("dtype",),
    "astype": ("dtype", "order", "casting", "subok", "copy"),
    "ravel": ("order",),
    "squeeze": ("axis",),
    "copy": ("order",),
    "fill": (),
    "clip": ("out",),
    "argmax": ("axis", "dtype", "out", "keepdims"),
    "argmin": ("axis", "dtype", "out", "keepdims"),
    "argsort": ("axis", "kind"),
    "cumsum": ("axis", "dtype", "out"),
    **dict.fromkeys(("sum", "prod", "mean"), ("axis", "dtype", "out", "keepdims")),
    **dict.fromkeys(("max", "min", "any", "all"), ("axis", "out", "keepdims")),
}
_SAID = {
    "array": "the host's array",
    "bool": "the truth",
    "int": "a number",
    "float": "a number",
    "complex": "a number",
    "index": "a number",
    "iter": "the elements",
    "contains": "a comparison",
    "repr": "a text",
    "str": "a text",
    "format": "a text",
    "buffer": "the memory",
}

for _name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides", "flags"):
    setattr(HiddenArray, _name, property(operator.attrgetter(f"hidden.{_name}")))
for _name, _keywords in _METHODS.items():
    setattr(HiddenArray, _name, _passed_on(_name, *_keywords))
for _name in _OPERATORS.split():
    _function = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(HiddenArray, f"__{_name}__", _operated(_function))
    setattr(HiddenArray, f"__r{_name}__", _operated(_function, turned=True))
    _in_place = getattr(operator, f"i{_name}")
    setattr(HiddenArray, f"__i{_name}__", _operated_in_place(_in_place))
for _name in _COMPARED.split():
    setattr(HiddenArray, f"__{_name}__", _operated(getattr(operator, _name)))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(HiddenArray, f"__{_name}__", _operated(getattr(operator, _name)))
for _name, _what in _SAID.items():
    setattr(HiddenArray, f"__{_name}__", _refuse(_what))
for _name in ("tolist", "item", "tobytes", "nonzero", "tofile"):
    setattr(HiddenArray, _name, _refuse(f"{_name}()"))
