"""What is known of a mask before anything runs: values that follow from constants alone, and which keys they hide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph, Node, Value

_UNDERSTOOD: Final = frozenset({"Add", "BroadcastTo", "Cast", "ExpandDims", "Mul", "Neg", "Reshape", "Squeeze", "Sub"})
"""Operators that masks are made of."""

_HIDDEN: Final = -9000.0
"""What is added to the score of a hidden key, at most: its weight is 0 beside any score within thousands of it."""


def made_of_constants(value: Value) -> list[Node] | None:
    """Return the nodes that make a value of constants alone, in order; None where something else takes part.

    >>> from mpiparallel.backend.tensor_spec import TensorSpec
    >>> graph = Graph()
    >>> given = graph.add_input("x", TensorSpec((3,), np.dtype(np.float32)))
    >>> made_of_constants(graph.add_constant(np.ones(3))), made_of_constants(given)
    ([], None)
    """
    if value.constant is not None:
        return []
    if value.node is None or value.node.operator.name not in _UNDERSTOOD or value.node.notes.guards:
        return None
    nodes: dict[Node, None] = {}
    for one in value.node.inputs:
        made = made_of_constants(one)
        if made is None:
            return None
        nodes.update(dict.fromkeys(made))
    return [*nodes, value.node]


def known_array(value: Value) -> np.ndarray[Any, Any] | None:
    """Return a value that follows from constants alone; None for any other."""
    nodes = made_of_constants(value)
    if nodes is None or not nodes:
        return value.constant
    with np.errstate(all="ignore"):
        (found,) = Program(Graph(outputs=[value], nodes=nodes), Runtime()).run([])
    return np.asarray(found)


def first_of_causal(added: np.ndarray[Any, Any]) -> int | None:
    """Return the place of the first query of what is added to scores (..., queries, keys) and makes attention causal.

    Nothing is added for keys up to the place of a query, and later ones are hidden. None where it is not so.

    >>> first_of_causal(np.triu(np.full((3, 3), -1e9), 1)), first_of_causal(np.triu(np.full((2, 5), -1e9), 3))
    (0, 2)
    >>> first_of_causal(np.triu(np.full((3, 3), -1.0), 1)) is None
    True
    """
    queries, keys = added.shape[-2:]
    shown = int(np.argmin(next(_rows(added)) == 0)) if added.size else 0
    if shown == 0:
        return None
    for place, row in enumerate(_rows(added)):
        seen = min(shown + place % queries, keys)
        if row[:seen].any() or not (row[seen:] <= _HIDDEN).all():
            return None
    return shown - 1


def adds_nothing(added: np.ndarray[Any, Any]) -> bool:
    """Return whether what is added is 0 everywhere.

    >>> adds_nothing(np.zeros((2, 2))), adds_nothing(np.eye(2))
    (True, False)
    """
    return not any(row.any() for row in _rows(added))


def _rows(added: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield row after row: most arrays are told apart by their first."""
    for place in np.ndindex(added.shape[:-1]):
        yield added[place]
