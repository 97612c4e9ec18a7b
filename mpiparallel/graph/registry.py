"""The one registry of operators, by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from mpiparallel.graph.operator import Operator

_REGISTRARS: Final = "mpiparallel.ops.operations"


class Registry(dict[str, "type[Operator]"]):
    """Operators by name. A name that is not there yet loads all of the package's: a tensor can do sums at once."""

    def __missing__(self, name: str) -> type[Operator]:
        # By its name, because operators are made of this folder and stand above it.
        importlib.import_module(_REGISTRARS)
        if name not in self:
            raise KeyError(name)
        return self[name]


OPERATORS: Final = Registry()
Class = TypeVar("Class", bound="type[Operator]")


def register(operator: Class) -> Class:
    """Enter an operator's class under its name; used as a decorator."""
    OPERATORS[operator.__name__] = operator
    return operator
