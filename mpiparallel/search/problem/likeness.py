"""Which nodes are alike: what they compute, of what, and so on to some neighbours of their neighbours."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mpiparallel.compile.strategies import Strategies
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
        around = _Around(describing, numbers)
        numbers = _numbered({node: around.described(node) for node in graph.nodes})
    return Likeness(alone, numbers)


def _numbered(keys: Mapping[Node, Hashable]) -> dict[Node, int]:
    known: dict[Hashable, int] = {}
    return {node: known.setdefault(key, len(known)) for node, key in keys.items()}


class _Describing:
    def __init__(self, graph: Graph, given: Strategies, held: Mapping[str, Layout]) -> None:
        self.graph, self._given, self._held = graph, given, held
        self._places = {value: place for place, value in enumerate(graph.inputs)}
        self._outputs = frozenset(graph.outputs)
        self._leaves: dict[Value, int] = {}
        self._kinds: dict[Hashable, int] = {}
        self.takers: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys(node.inputs):
                self.takers.setdefault(value, []).append(node)

    def alone(self, node: Node) -> Hashable:
        """Return what a node is, whatever there is around it."""
        notes = node.notes
        seen: dict[Value, int] = {}
        inputs = tuple((seen.setdefault(value, len(seen)), self.leaf(value)) for value in node.inputs)
        gradients = self.graph.gradients
        outputs = tuple((self.leaf(value), value in self._outputs, value in gradients) for value in node.outputs)
        segment = notes.segment and (notes.segment.recomputed, notes.segment.regathers)
        told = notes.follows, notes.like is not None, len(notes.guards), segment, notes.stage
        strategies = self._given.inputs.get(node), self._given.outputs.get(node)
        return operator_key(node.operator), inputs, outputs, told, strategies

    def leaf(self, value: Value) -> int:
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


class _Around:
    """Describes nodes by what their neighbours are, by the numbers of these."""

    def __init__(self, describing: _Describing, numbers: Mapping[Node, int]) -> None:
        self._describing, self._numbers, self._graph = describing, numbers, describing.graph
        self._known: dict[Value, Hashable] = {}

    def described(self, node: Node) -> Hashable:
        """Return what a node is by what its neighbours are."""
        numbers, notes, values = self._numbers, node.notes, (*node.inputs, *node.outputs)
        inputs = tuple([self._value(value) for value in node.inputs])
        takers = tuple([self._taken(value) for value in node.outputs])
        origin = None
        if notes.origin is not None:
            cotangents = self._graph.cotangents.get(notes.origin, ())
            own = (*notes.origin.inputs, *notes.origin.outputs, *cotangents)
            origin = numbers.get(notes.origin), tuple([own.index(one) if one in own else -1 for one in values])
        like = None if notes.like is None else self._value(notes.like)
        gradients = self._graph.gradients
        landed = tuple([self._value(gradients[one]) if one in gradients else None for one in values])
        return numbers[node], inputs, takers, origin, like, landed

    def _taken(self, value: Value) -> Hashable:
        """Return which nodes take a value, and in which place."""
        takers = self._describing.takers.get(value, ())
        return tuple(sorted([(self._numbers[taker], taker.inputs.index(value)) for taker in takers]))

    def _value(self, value: Value) -> Hashable:
        """Return what a value is, by what makes it or takes it."""
        if value.node is not None:
            return self._numbers.get(value.node), value.index
        found = self._known.get(value)
        if found is None:
            takers = self._describing.takers.get(value, ())
            # What many take, such as a learning rate, is alike for all of them.
            few = tuple(sorted([self._numbers[taker] for taker in takers])) if len(takers) < _SMALL else None
            found = self._known[value] = self._describing.leaf(value), few
        return found
