"""Segments of a network that are computed once more for their gradient, so that nothing inside them is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.trace import Trace

RECOMPUTED: Final = "recomputed/"
"""What the names of nodes that are computed once more begin with."""


class Recomputation:
    """Appends, when the gradient of a segment is about to be made, the segment's nodes once more.

    The gradient then reads what the twins compute, from the segment's inputs; what the first ones computed dies with
    its last use before. Twins have the strategies and random numbers of the first nodes. Parameters are overwritten
    once; a node that read one which has been overwritten since has no twin: what it computed is kept.
    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
    """

    def __init__(self, trace: Trace) -> None:
        self._graph = trace.graph
        self._overwritten = Overwritten(trace.graph)
        self._twins: dict[Node, Node] = {}
        self._nodes: dict[Segment, list[Node]] = {}
        for node in trace.graph.nodes:
            if node.notes.segment is not None and node.is_forward:
                self._nodes.setdefault(node.notes.segment, []).append(node)

    def twin(self, node: Node) -> Node:
        """Return the node whose inputs and outputs the gradient of ``node`` reads."""
        if node.notes.segment is not None:
            self._recompute(node.notes.segment)
        return self._twins.get(node, node)

    def _recompute(self, segment: Segment) -> None:
        again: dict[Value, Value] = {}
        second_time = replace(segment, recomputed=True)
        for node in self._nodes.pop(segment, []):
            if self._overwritten.since(node, node.inputs) is not None:
                continue
            inputs = [again.get(value, value) for value in node.inputs]
            specs = [value.spec for value in node.outputs]
            notes = replace(node.notes, segment=second_time)
            twin = self._graph.add_node(node.operator, f"{RECOMPUTED}{node.name}", inputs, specs, notes)
            again.update(zip(node.outputs, twin.outputs, strict=True))
            self._twins[node] = twin


class Overwritten:
    """The parameters that the nodes of a graph overwrite, and when, as the graph is now."""

    def __init__(self, graph: Graph) -> None:
        self._position = {node: position for position, node in enumerate(graph.nodes)}
        self._last: dict[Value, int] = {}
        for position, node in enumerate(graph.nodes):
            self._last.update((node.inputs[index], position) for index in node.operator.updates)

    def since(self, node: Node, values: Iterable[Value]) -> Value | None:
        """Return the first of the values that is overwritten after ``node``; None where all are as they were."""
        return next((value for value in values if self._last.get(value, -1) > self._position[node]), None)
