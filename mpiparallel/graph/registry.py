"""The one registry of operators, by name: those that ``ops`` offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from mpiparallel.graph.operator import Operator

OPERATORS: Final[dict[str, type[Operator]]] = {}
Class = TypeVar("Class", bound="type[Operator]")


def register(operator: Class) -> Class:
    """Enter an operator's class under its name; used as a decorator."""
    OPERATORS[operator.__name__] = operator
    return operator
