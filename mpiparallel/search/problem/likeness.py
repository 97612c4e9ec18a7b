"""Which nodes are alike: what they compute, of what, and so on to some neighbours of their neighbours."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from mpiparallel.compile.strategies import Strategies
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost.operator_key import operator_key

_ROUNDS: Final = 2
_SMALL: Final = 64


@dataclass(frozen=True)
class Likeness:
    """Numbers of nodes: equal for those that are alike ``alone``, and for those whose neighbours ``around`` are too."""

    alone: Mapping[Node, int]
    around: Mapping[Node, int]


def likeness(graph: Graph, given: Strategies, held: Mapping[str, Layout]) -> Likeness:
    """Return which nodes are alike: if their inputs are laid out alike, they are placed alike.

    For nodes with equal choices it is enough that they are alike by themselves. Of all others the nodes around them
    must be alike too.
    """
    describing = _Describing(graph, given, held)
    alone = numbers = _numbered({node: describing.alone(node) for node in graph.nodes})
    for _ in range(_ROUNDS):
        numbers = _numbered({node: describing.among(node, numbers) for node in graph.nodes})
    return Likeness(alone, numbers)


def _numbered(keys: Mapping[Node, Hashable]) -> dict[Node, int]:
    known: dict[Hashable, int] = {}
    return {node: known.setdefault(key, len(known)) for node, key in keys.items()}


class _Describing:
    def __init__(self, graph: Graph, given: Strategies, held: Mapping[str, Layout]) -> None:
        self._graph, self._given, self._held = graph, given, held
        self._places = {value: place for place, value in enumerate(graph.inputs)}
        self._outputs = frozenset(graph.outputs)
        self._leaves: dict[Value, int] = {}
        self._kinds: dict[Hashable, int] = {}
        self._takers: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys(node.inputs):
                self._takers.setdefault(value, []).append(node)

    def alone(self, node: Node) -> Hashable:
        """Return what a node is, whatever there is around it."""
        notes = node.notes
        seen: dict[Value, int] = {}
        inputs = tuple((seen.setdefault(value, len(seen)), self._leaf(value)) for value in node.inputs)
        gradients = self._graph.gradients
        outputs = tuple((self._leaf(value), value in self._outputs, value in gradients) for value in node.outputs)
        segment = notes.segment and (notes.segment.recomputed, notes.segment.regathers)
        told = notes.follows, notes.like is not None, len(notes.guards), segment, notes.stage
        strategies = self._given.inputs.get(node), self._given.outputs.get(node)
        return operator_key(node.operator), inputs, outputs, told, strategies

    def among(self, node: Node, numbers: Mapping[Node, int]) -> Hashable:
        """Return what a node is by what its neighbours are."""
        notes = node.notes
        inputs = tuple(self._around(value, numbers) for value in node.inputs)
        takers = tuple(
            tuple(sorted((numbers[taker], taker.inputs.index(value)) for taker in self._takers.get(value, ())))
            for value in node.outputs
        )
        origin = None
        if notes.origin is not None:
            cotangents = self._graph.cotangents.get(notes.origin, ())
            own = (*notes.origin.inputs, *notes.origin.outputs, *cotangents)
            where = tuple(own.index(value) if value in own else -1 for value in (*node.inputs, *node.outputs))
            origin = numbers.get(notes.origin), where
        like = None if notes.like is None else self._around(notes.like, numbers)
        landed = tuple(
            self._around(self._graph.gradients[value], numbers) if value in self._graph.gradients else None
            for value in (*node.inputs, *node.outputs)
        )
        return numbers[node], inputs, takers, origin, like, landed

    def _around(self, value: Value, numbers: Mapping[Node, int]) -> Hashable:
        if value.node is not None:
            return numbers.get(value.node), value.index
        takers = self._takers.get(value, ())
        # What many take, such as a learning rate, is alike for all of them.
        return self._leaf(value), tuple(sorted(numbers[taker] for taker in takers)) if len(takers) < _SMALL else None

    def _leaf(self, value: Value) -> int:
        """Return a number for what a value is, whatever makes it."""
        found = self._leaves.get(value)
        if found is None:
            found = self._leaves[value] = self._kinds.setdefault(self._kind(value), len(self._kinds))
        return found

    def _kind(self, value: Value) -> Hashable:
        if value.node is not None:
            return value.spec
        parameter: Any = value.parameter
        kept: Hashable = None
        if parameter is not None:
            kept = parameter.requires_grad, parameter.parallel_optimizer, parameter.layerwise_parallel
        constant: Hashable = None
        if value.constant is not None:
            constant = value.constant.tobytes() if value.constant.size < _SMALL else id(value)
        return value.spec, kept, self._held.get(value.name), constant, self._places.get(value)
