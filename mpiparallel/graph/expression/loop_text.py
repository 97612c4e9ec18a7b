"""How a term is written in the source of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mpiparallel.graph.expression.term import Term

_TEXTS: Final = {
    "add": "({} + {})",
    "subtract": "({} - {})",
    "multiply": "({} * {})",
    "true_divide": "({} / {})",
    "negative": "(-{})",
    "absolute": "abs({})",
    "sqrt": "sqrt({})",
    "log": "log({})",
    "log1p": "log1p({})",
    "sin": "sin({})",
    "cos": "cos({})",
    "floor": "floor({})",
    "square": "({0} * {0})",
    "maximum": "maximum({}, {})",
    "minimum": "minimum({}, {})",
    "sign": "({0} if {0} != {0} else (one({0} > 0) - one({0} < 0)))",
    "equal": "({} == {})",
    "not_equal": "({} != {})",
    "less": "({} < {})",
    "less_equal": "({} <= {})",
    "greater": "({} > {})",
    "greater_equal": "({} >= {})",
    "logical_and": "({} & {})",
    "logical_or": "({} | {})",
    "logical_not": "(not {})",
    "where": "({1} if {0} else {2})",
}
COSTLY = frozenset(("exp", "log", "tanh"))
"""Functions whose values are kept for the next pass over a row rather than computed again."""


def formula(term: Term, name: Callable[[Term], str]) -> str:
    """Return the formula of a term, given the names of its operands."""
    names = [name(one) for one in term.operands]
    letter = letter_of(term.dtype)
    if term.function == "cast":
        return f"({names[0]} != 0)" if term.dtype.kind == "b" else f"{letter}({names[0]})"
    if term.function in ("exp", "tanh"):
        return f"{term.function}_{letter}({names[0]})"
    if term.dtype.kind == "f":
        choice = term.function == "where"
        names = [
            text if one.dtype == term.dtype or (choice and not index) else f"{letter}({text})"
            for index, (one, text) in enumerate(zip(term.operands, names, strict=True))
        ]
    return _TEXTS[term.function].format(*names).replace("one(", f"{letter}(")


def letter_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype in a loop."""
    return {"f": "f4", "d": "f8", "?": "bool"}.get(dtype.char, f"int{dtype.itemsize * 8}")


def constant_text(term: Term) -> str:
    """Return a constant as it is written."""
    if term.dtype.kind == "b":
        return repr(bool(term.number))
    return f"{letter_of(term.dtype)}({float(term.number) if term.dtype.kind == 'f' else int(term.number)!r})"
