"""How a term is written in CUDA C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mpiparallel.dtype import is_floating, is_narrow
from mpiparallel.graph.expression.term import REDUCTIONS, Term
from mpiparallel.graph.expression.universal_functions import universal_function

_STORED: Final = {
    "?": "bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "l": "long long",
    "L": "unsigned long long",
    "q": "long long",
    "Q": "unsigned long long",
    "f": "float",
    "d": "double",
}
_CHOICE: Final = "({0} ? {1} : {2})"
_INFINITY: Final = {"f": "__int_as_float(0x7f800000)", "d": "__longlong_as_double(0x7ff0000000000000ll)"}
_NO_NUMBER: Final = {"f": "__int_as_float(0x7fc00000)", "d": "__longlong_as_double(0x7ff8000000000000ll)"}


def is_written(term: Term) -> bool:
    """Return whether a kernel can compute a term."""
    if not _is_stored(term.dtype) or (term.function == "max" and not is_floating(term.dtype)):
        return False
    if term.function in REDUCTIONS:
        return bool(term.number)
    return term.function in ("cast", "where") or term.is_leaf or bool(_text_of(term.function))


def _is_stored(dtype: np.dtype[Any]) -> bool:
    return is_narrow(dtype) or dtype.char in _STORED


def stored_type(dtype: np.dtype[Any]) -> str:
    """Return the type of an element in memory; a float of 16 bits is its bits."""
    return "unsigned short" if is_narrow(dtype) else _STORED[dtype.char]


def computed_type(dtype: np.dtype[Any]) -> str:
    """Return the type in which an element is computed with; one of 16 bits is a float that it can be."""
    return "float" if is_narrow(dtype) else _STORED[dtype.char]


def loaded(dtype: np.dtype[Any], text: str) -> str:
    """Return an element of memory as it is computed with."""
    return f"from_{dtype.name}({text})" if is_narrow(dtype) else text


def stored(dtype: np.dtype[Any], text: str) -> str:
    """Return a number as an element of memory."""
    return f"to_{dtype.name}((float)({text}))" if is_narrow(dtype) else f"({_STORED[dtype.char]})({text})"


def cuda_formula(term: Term, name: Callable[[Term], str]) -> str:
    """Return the formula of a term, given the names of its operands."""
    names = [name(one) for one in term.operands]
    if term.function == "cast":
        return _cast(term, names[0])
    kind = computed_type(term.dtype)
    if term.dtype.kind != "b":
        is_choice = term.function == "where"
        names = [
            text if one.dtype == term.dtype or (is_choice and not index) else f"({kind})({text})"
            for index, (one, text) in enumerate(zip(term.operands, names, strict=True))
        ]
    suffix = "" if term.dtype.char == "d" else "f"
    return _text_of(term.function).format(*names, type=kind, f=suffix)


def cuda_constant(term: Term) -> str:
    """Return a constant as it is written."""
    if not is_floating(term.dtype):
        return f"({_STORED[term.dtype.char]})({int(term.number)!r}{'ll' if term.dtype.itemsize == 8 else ''})"
    return _float(float(term.dtype.type(term.number)), "d" if term.dtype.char == "d" else "f")


def lowest(dtype: np.dtype[Any]) -> str:
    """Return minus infinity, which is below all floats."""
    return f"(-{_INFINITY['d' if dtype.char == 'd' else 'f']})"


def _float(value: float, char: str) -> str:
    if value != value:
        return _NO_NUMBER[char]
    if abs(value) == float("inf"):
        return _INFINITY[char] if value > 0 else f"(-{_INFINITY[char]})"
    return f"({value!r}f)" if char == "f" else f"({value!r})"


def _cast(term: Term, text: str) -> str:
    if term.dtype.kind == "b":
        return f"({text} != 0)"
    if is_narrow(term.dtype):
        return loaded(term.dtype, stored(term.dtype, text))
    return f"({_STORED[term.dtype.char]})({text})"


def _text_of(function: str) -> str:
    row = universal_function(function)
    return _CHOICE if function == "where" else "" if row is None else row.cuda
