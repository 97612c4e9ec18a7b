"""The element-wise functions that an array library has, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.function import Function
from mpiparallel.graph.expression.functions_of_one import CIRCULAR, OF_ONE, ROUNDED
from mpiparallel.graph.expression.functions_of_two import OF_TWO, TRUTHS

UNIVERSAL_FUNCTIONS: Final = (*ROUNDED, *OF_ONE, *CIRCULAR, *OF_TWO, *TRUTHS)
_BY_NAME: Final = {row.universal: row for row in UNIVERSAL_FUNCTIONS}


def universal_function(name: str) -> Function | None:
    """Return the row of a function by its name in the array library; None for what is no such function.

    >>> universal_function("arcsin").name
    'Asin'
    """
    return _BY_NAME.get(name)


def array_function(runtime: Runtime, name: str) -> Callable[..., Any]:
    """Return the function of this name, which writes its result to ``out``: our own where the library has none."""
    row = universal_function(name)
    if row is not None and row.numpy is not None:
        return row.numpy
    function: Callable[..., Any] = getattr(runtime.array_module, name)
    return function
