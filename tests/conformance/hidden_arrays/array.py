"""An array in the memory of a device that does not exist: it has CuPy's interface, and hides its elements.

What reads an element on the host without saying so raises `LeakError`, as does what would wait for the device in
silence: a mask that picks, places where something holds. CuPy does some of that; each such place costs a wait.
"""

from __future__ import annotations

import operator
import sys
import weakref
from typing import Any

import numpy as np

from tests.conformance.hidden_arrays.stream import DEVICE

_ALLOWED = ("mpiparallel.backend.cupy_backend", "mpiparallel.graph.tensor")
"""The modules that may copy from the device to the host."""


OWNERS: weakref.WeakValueDictionary[tuple[int, int, int], Any] = weakref.WeakValueDictionary()
"""The memory of all arrays of devices that there is, by its first byte, the one after its last, and its identity."""


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


def hidden_of(value: Any) -> list[np.ndarray[Any, Any]]:
    """Return the hidden arrays of an argument, also of those in a list."""
    if isinstance(value, HiddenArray):
        return [value.hidden]
    if isinstance(value, dict):
        return hidden_of([*value.values()])
    return [one for each in value for one in hidden_of(each)] if isinstance(value, (tuple, list)) else []


def perform(function: Any, given: Any, named: Any, written: Any = ()) -> Any:
    """Let the device call a function of NumPy's, which writes to the arrays of ``written``; return what that returns.

    Without any of these its result is new memory, or a view.
    """
    unwrapped, keywords = host(given), {key: host(value) for key, value in named.items()}
    arrays, targets = hidden_of([given, named, written]), hidden_of(written)
    shown = (function, tuple(given), tuple(named.items()))
    return DEVICE.perform(lambda: function(*unwrapped, **keywords), arrays, targets, shown)


def _refuse(what: str) -> Any:
    def refused(self: HiddenArray, *_given: Any, **_named: Any) -> Any:
        raise LeakError(f"{what} of a device's array of shape {self.shape}: say so by Backend.to_host")

    return refused


def _passed_on(name: str, *keywords: str) -> Any:
    """Return the method of this name; ``keywords`` are those that CuPy knows."""

    def method(self: HiddenArray, *given: Any, **named: Any) -> Any:
        check_keywords(name, named, keywords)
        out = named.get("out")
        written = self if name == "fill" else () if out is None else out
        found = perform(getattr(np.ndarray, name), (self, *given), named, written)
        return out if out is not None else device(found)

    return method


def check_keywords(name: str, named: Any, known: Any) -> None:
    """Raise UnknownToCupyError for a keyword that the function has in NumPy alone."""
    unknown = set(named) - set(known)
    if unknown:
        raise UnknownToCupyError(f"{name} has no {sorted(unknown)} in CuPy")


def _operated(function: Any, turned: bool = False) -> Any:
    def operate(self: HiddenArray, *given: Any) -> Any:
        operands = (self, *given)
        return device(perform(function, operands[::-1] if turned else operands, {}))

    return operate


def _operated_in_place(function: Any) -> Any:
    def operate(self: HiddenArray, other: Any) -> Any:
        perform(function, (self, other), {}, self)
        return self

    return operate


class _Memory:
    """Where an array is."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.ptr = array.ctypes.data


class HiddenArray:
    """An array of which the host knows shape, dtype, strides and address only."""

    __slots__ = ("__weakref__", "hidden")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, hidden: np.ndarray[Any, Any]) -> None:
        self.hidden = hidden
        owner: Any = hidden
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start = owner.__array_interface__["data"][0]
        OWNERS[start, start + owner.nbytes, id(owner)] = owner

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
        found = perform(function, given, {**named, **({} if out is None else {"out": out})}, () if out is None else out)
        return device(found) if out is None else out

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, key: Any) -> HiddenArray:
        if any(_is_mask(one) for one in (key if isinstance(key, tuple) else (key,))):
            raise LeakError("a mask picks elements: how many they are the host has to wait for")
        return HiddenArray(np.asarray(perform(operator.getitem, (self, key), {})))

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is Ellipsis and isinstance(value, np.ndarray) and (value.shape, value.dtype) == (self.shape, self.dtype):
            # CuPy's one way to set an array from the host's memory by assignment.
            DEVICE.must_not_capture("a host array is assigned")
            self.set(value, blocking=True)
            return
        masked = any(_is_mask(one) for one in (key if isinstance(key, tuple) else (key,)))
        if masked and getattr(value, "size", 1) != 1:
            raise LeakError("as many elements as a mask has: how many they are the host has to wait for")
        perform(operator.setitem, (self, key, value), {}, self)

    def set(self, value: Any, stream: Any = None, blocking: bool = False) -> None:
        """Copy from the host's memory; from pinned memory that goes on when this returns."""
        if not isinstance(value, np.ndarray) or (value.shape, value.dtype) != (self.shape, self.dtype):
            raise UnknownToCupyError(f"set to {value!r:.60} of an array {self.shape} {self.dtype}")
        if not self.hidden.flags.c_contiguous and not blocking:
            raise UnknownToCupyError("set of an array that is not in C order")
        DEVICE.must_not_capture("the host's memory is copied")
        DEVICE.current.uses([self.hidden], [self.hidden])
        self.hidden[...] = value
        if not blocking and is_pinned(value) and value.size:
            DEVICE.copies_from(value)

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        """Return a copy on the host, for the backend alone."""
        caller = sys._getframe(1).f_globals["__name__"]
        if caller not in (*_ALLOWED, "tests.conformance.hidden_arrays.library"):
            raise LeakError(f"{caller} reads a device's array: only {_ALLOWED} may")
        DEVICE.must_not_capture("a copy to the host")
        DEVICE.current.uses([self.hidden], [])
        if not blocking:
            DEVICE.copies += 1
            return self._begin_to_get(out)
        DEVICE.reads += 1
        DEVICE.current.synchronize()
        if out is None:
            return self.hidden.copy(order=order)
        if out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise UnknownToCupyError(f"get into {out.shape} {out.dtype} from {self.shape} {self.dtype}")
        np.copyto(out, self.hidden)
        return out

    def _begin_to_get(self, out: Any) -> Any:
        if not is_pinned(out) or not self.hidden.flags.c_contiguous:
            raise UnknownToCupyError("a copy that goes on wants pinned memory, and an array in C order")
        if out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise UnknownToCupyError(f"get into {out.shape} {out.dtype} from {self.shape} {self.dtype}")
        DEVICE.copies_to(out, self.hidden.copy())
        return out

    def take(self, indices: Any, axis: Any = None, out: Any = None) -> HiddenArray:
        """Pick along an axis; CuPy has no ``mode``, and takes indices modulo the extent."""
        found = perform(np.take, (self, indices, axis, out, "wrap"), {}, () if out is None else out)
        return HiddenArray(found) if out is None else out


def is_pinned(value: Any) -> bool:
    """Return whether memory of the host is that of ``alloc_pinned_memory``."""
    while isinstance(value, np.ndarray):
        value = value.base
    return isinstance(value, (memoryview, bytearray))


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
