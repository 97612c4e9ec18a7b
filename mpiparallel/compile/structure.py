"""Nested tuples and dicts of tensors, taken apart into a flat list and put together again."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import TraceError
from mpiparallel.graph.tensor import Tensor

Structure = Any
"""An int for the leaf of that number, a tuple of structures, Named, Constant, or None."""


@dataclass(frozen=True)
class ProgramConstant:
    """A number, a text or a type that is part of the program; ``kind`` keeps 1, 1.0 and True apart."""

    kind: type
    value: Any

    @classmethod
    def of(cls, value: Any) -> ProgramConstant:
        """Return the constant of a value."""
        return cls(type(value), value)


@dataclass(frozen=True)
class Named:
    """The structures of a dict, by name; ``are_options`` where these are arguments by name."""

    names: tuple[Any, ...]
    structures: tuple[Structure, ...]
    are_options: bool = False


class Options(dict[str, Any]):
    """Arguments by name, behind the others."""


def with_defaults(
    where: str, signature: inspect.Signature, inputs: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return all arguments of a function by place, and Options of those that have none.

    Raises TraceError, a TypeError, where the function ``where`` does not take them.

    >>> with_defaults("f", inspect.signature(lambda x, y=2, *, z=3: None), (1,), {})
    (1, 2, {'z': 3})
    """
    try:
        bound = signature.bind(*inputs, **options)
    except TypeError as error:
        raise TraceError(f"{where}: {error}") from None
    bound.apply_defaults()
    return (*bound.args, Options(bound.kwargs)) if bound.kwargs else bound.args


def flatten(item: Any, leaves: list[Any]) -> Structure:
    """Append the tensors and arrays of ``item`` to ``leaves`` and return how they lie in it.

    Tuples, lists and dicts are taken apart, but not lists of numbers, which are arrays. Raises TraceError for what is
    neither these nor a number, a text or a type.

    >>> leaves = []
    >>> flatten((Tensor(1.0), [Tensor(2.0), None]), leaves), len(leaves)
    ((0, (1, None)), 2)
    """
    if item is None:
        return None
    if isinstance(item, (tuple, list)) and not _is_array(item):
        return tuple(flatten(one, leaves) for one in item)
    if isinstance(item, dict):
        return Named(tuple(item), tuple(flatten(one, leaves) for one in item.values()), isinstance(item, Options))
    if isinstance(item, (bool, int, float, complex, str, type, np.dtype)):
        return ProgramConstant.of(item)
    if not isinstance(item, (Tensor, np.ndarray, np.generic, tuple, list)):
        raise TraceError(f"a {type(item).__name__} stands where tensors, or tuples of them, are expected")
    leaves.append(item)
    return len(leaves) - 1


def _is_array(item: Sequence[Any]) -> bool:
    return bool(item) and all(
        isinstance(one, (int, float, np.generic)) or (isinstance(one, (tuple, list)) and _is_array(one)) for one in item
    )


def rebuild(structure: Structure, leaves: Sequence[Any]) -> Any:
    """Return what ``flatten`` took apart, made of other leaves.

    >>> rebuild((0, (1, None)), ["a", "b"])
    ('a', ('b', None))
    """
    if structure is None:
        return None
    if isinstance(structure, tuple):
        return tuple(rebuild(one, leaves) for one in structure)
    if isinstance(structure, ProgramConstant):
        return structure.value
    if isinstance(structure, Named):
        items = zip(structure.names, (rebuild(one, leaves) for one in structure.structures), strict=True)
        return Options(items) if structure.are_options else dict(items)
    return leaves[structure]
