"""What may decide on where a node is that has no choice of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpiparallel.compile.policy import operands_of
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.operator_placement import OperatorPlacement
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.symbol import Symbol

Read = tuple[str, Any, Symbol[Any]]
"""The part of what is known that is read, which of it, and its symbol."""


@dataclass(frozen=True)
class Deciding:
    """What is known so far of a graph: where ``nodes`` and ``values`` are, and where operators use parameters.

    ``takers`` are the nodes that take each value made in a gradient first. ``reach`` sees to it that a node before the
    one that is being placed is known. ``homes`` are those that make a value or take it first.
    """

    graph: Graph
    nodes: Mapping[Node, Symbol[OperatorPlacement]]
    values: Mapping[Value, Symbol[Layout]]
    used: Mapping[str, Symbol[Layout]]
    takers: Mapping[Value, Node]
    homes: Mapping[Value, Node]
    reach: Callable[[Node], None]
    repeats: Repeats

    def on(self, node: Node) -> list[Read]:
        """Return what may decide on the placement of a node."""
        found: dict[tuple[str, Any], Symbol[Any]] = {}
        operator, origin, like = node.operator, node.notes.origin, node.notes.like
        if operator.updates and not operator.keeps_partial:
            self._read(found, node.inputs[operator.updates[0]])
            if operator.laid_out_as is not None:
                self._read(found, node.inputs[operator.laid_out_as])
        elif like is not None:
            for value in node.inputs:
                if self.is_known(value):
                    found["layout", value] = self._as_term(value)
                self._read_landed(found, value)
            self._read(found, like)
        elif origin is not None:
            self._read_origin(found, origin)
            for value in node.inputs:
                if operator.linear or self._is_own(value, origin):
                    self._read(found, value)
            if operands_of(node).equation.own_to_outputs:
                for value in node.outputs:
                    self._read_taker(found, value)
        else:
            for value in node.inputs:
                self._read(found, value)
                self._read_landed(found, value)
        return [(part, key, symbol) for (part, key), symbol in found.items()]

    def is_known(self, value: Value) -> bool:
        """Return whether it is known where a value is."""
        if value not in self.values and value in self.homes:
            self.reach(self.homes[value])
        return value in self.values

    def _read(self, found: dict[tuple[str, Any], Symbol[Any]], value: Value) -> None:
        if self.is_known(value):
            found["layout", value] = self.values[value]
        if value.name in self.used and value.parameter is not None:
            found["used", value.name] = self.used[value.name]

    def _read_origin(self, found: dict[tuple[str, Any], Symbol[Any]], origin: Node) -> None:
        self.reach(origin)
        found["origin", origin] = self.nodes[origin]

    def _read_landed(self, found: dict[tuple[str, Any], Symbol[Any]], value: Value) -> None:
        """Read where the parameter is of which a value is the finished gradient."""
        landed = self.graph.gradients.get(value)
        if landed is not None:
            self._read(found, landed)

    def _read_taker(self, found: dict[tuple[str, Any], Symbol[Any]], value: Value) -> None:
        """Read what tells the layout in which the next node takes a part of a gradient."""
        parameter, taker = self.graph.gradients.get(value), self.takers.get(value)
        if parameter is not None:
            self._read(found, parameter)
        elif taker is None or taker.operator.keeps_layouts:
            return
        elif taker.notes.like is not None:
            self._read(found, taker.notes.like)
        elif taker.notes.origin is not None:
            self._read_origin(found, taker.notes.origin)
            if value not in self.graph.cotangents.get(taker.notes.origin, ()):
                for one in taker.inputs:
                    if one.node is not None or self._is_own(one, taker.notes.origin):
                        self._read(found, one)
                for one in taker.outputs:
                    self._read_taker(found, one)

    def _as_term(self, value: Value) -> Symbol[Layout]:
        """Return where a value is that is added to others: it matters only where it is a term of a sum itself."""
        symbol = self.values[value]

        def as_term() -> Symbol[Layout]:
            whole = next((one for one in symbol.items if not _is_term(one)), None)
            return symbol.mapped(lambda one: one if whole is None or _is_term(one) else whole)

        return self.repeats.of("term", [symbol], as_term)

    def _is_own(self, value: Value, origin: Node) -> bool:
        """Return whether a gradient of ``origin`` takes a value from where it is, not from where ``origin`` had it."""
        near = {*origin.inputs, *origin.outputs, *self.graph.cotangents.get(origin, ())}
        return value not in near and value.constant is None


def _is_term(layout: Layout) -> bool:
    return bool(layout.partial) and layout.reduction == "sum"
