"""Signs and methods of tensors, which are attached where the operators are: in ``mpiparallel.ops``."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

Class = TypeVar("Class", bound="type[Any]")


class TensorOperations:
    """What tensors do by operators. Its stub lists it all, and is written from what is attached."""


def attached(methods: Class) -> Class:
    """Give all tensors the methods and properties that a class defines; used as a decorator."""
    for name, item in vars(methods).items():
        if inspect.isfunction(item) or isinstance(item, property):
            setattr(TensorOperations, name, item)
    return methods
