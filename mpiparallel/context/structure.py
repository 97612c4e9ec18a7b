"""Nested tuples of tensors, taken apart into a flat list and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.errors import TraceError
from mpiparallel.graph.tensor import Tensor

Structure = Any
"""An int for the leaf of that number, a tuple of structures, or None."""


def flatten(item: Any, leaves: list[Any]) -> Structure:
    """Append the tensors, arrays and numbers of ``item`` to ``leaves`` and return how they lie in it.

    Tuples and lists are taken apart, but not lists of numbers, which are arrays. Raises TraceError for anything else.

    >>> leaves = []
    >>> flatten((Tensor(1.0), [Tensor(2.0), None]), leaves), len(leaves)
    ((0, (1, None)), 2)
    """
    if item is None:
        return None
    if isinstance(item, (tuple, list)) and not _is_array(item):
        return tuple(flatten(one, leaves) for one in item)
    if not isinstance(item, (Tensor, np.ndarray, np.generic, int, float, tuple, list)):
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
    return leaves[structure]
