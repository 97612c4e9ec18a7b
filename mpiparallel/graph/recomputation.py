"""Segments of a network that are computed once more for their gradient, so that nothing inside them is kept."""

from __future__ import annotations

from dataclasses import replace

from mpiparallel.graph.graph import Node, Segment, Value
from mpiparallel.graph.overwritten import Overwritten
from mpiparallel.graph.trace import Trace


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
            if node.segment is not None and node.origin is None and node.like is None and not node.operator.updates:
                self._nodes.setdefault(node.segment, []).append(node)

    def twin(self, node: Node) -> Node:
        """Return the node whose inputs and outputs the gradient of ``node`` reads."""
        if node.segment is not None:
            self._recompute(node.segment)
        return self._twins.get(node, node)

    def _recompute(self, segment: Segment) -> None:
        again: dict[Value, Value] = {}
        second_time = replace(segment, recomputed=True)
        for node in self._nodes.pop(segment, []):
            if self._overwritten.since(node, node.inputs) is not None:
                continue
            inputs = [again.get(value, value) for value in node.inputs]
            specs = [value.spec for value in node.outputs]
            twin = self._graph.add_node(node.operator, f"recomputed/{node.name}", inputs, specs, follows=node.follows)
            twin.guards, twin.segment = node.guards, second_time
            again.update(zip(node.outputs, twin.outputs, strict=True))
            self._twins[node] = twin
