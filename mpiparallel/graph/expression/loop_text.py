"""How a term is written in the source of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mpiparallel.dtype import is_narrow
from mpiparallel.graph.expression.function import COSTLY
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.expression.universal_functions import universal_function

_CHOICE: Final = "({1} if {0} else {2})"


def is_costly(term: Term) -> bool:
    """Return whether a term is kept for the next pass over a row rather than computed again."""
    row = universal_function(term.function)
    return row is not None and row.operations >= COSTLY


def text_of(function: str) -> str:
    """Return how a function is written; nothing for one that no loop computes."""
    row = universal_function(function)
    return _CHOICE if function == "where" else "" if row is None else row.text


def formula(term: Term, name: Callable[[Term], str]) -> str:
    """Return the formula of a term, given the names of its operands."""
    names = [name(one) for one in term.operands]
    letter = letter_of(term.dtype)
    if term.function == "cast":
        return _cast_text(term.operands[0].dtype, term.dtype, names[0])
    if term.dtype.kind == "f":
        choice = term.function == "where"
        names = [
            text if one.dtype == term.dtype or (choice and not index) else f"{letter}({text})"
            for index, (one, text) in enumerate(zip(term.operands, names, strict=True))
        ]
    return text_of(term.function).format(*names, letter=letter)


def _cast_text(source: np.dtype[Any], target: np.dtype[Any], text: str) -> str:
    """Return a cast; of floats of 16 bits a loop holds the bits."""
    if is_narrow(source):
        return _cast_text(np.dtype(np.float32), target, f"from_{source.name}({text})")
    if is_narrow(target):
        return f"to_{target.name}({_cast_text(source, np.dtype(np.float32), text)})"
    if source == target:
        return text
    return f"({text} != 0)" if target.kind == "b" else f"{letter_of(target)}({text})"


def letter_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype in a loop."""
    return {"f": "f4", "d": "f8", "?": "bool"}.get(dtype.char, f"int{dtype.itemsize * 8}")


def constant_text(term: Term) -> str:
    """Return a constant as it is written."""
    if term.dtype.kind == "b":
        return repr(bool(term.number))
    return f"{letter_of(term.dtype)}({float(term.number) if term.dtype.kind == 'f' else int(term.number)!r})"
