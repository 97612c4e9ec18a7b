"""Fusion of collectives: many small messages of a local graph become one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.parallel.redistribution import Redistribution, fused_operator

_LARGEST = 1 << 16
"""Elements above which a tensor travels alone: copying it into a common message costs more than a message saves."""


@dataclass
class _Bucket:
    """Nodes whose collectives become one, at the place of the first."""

    position: int
    nodes: list[Node]


def fuse_collectives(graph: Graph, steps: Mapping[Node, Redistribution], rank: int) -> None:
    """Let collectives of small tensors that are alike and can run at one time travel in one message.

    ``steps`` says which nodes redistribute, and how. A collective joins an earlier one when all that it reads is known
    there. What joins what follows from layouts and the order of the nodes alone, so all ranks decide alike.
    """
    buckets = _find_buckets(graph, steps)
    joined = {node: bucket for bucket in buckets if len(bucket.nodes) > 1 for node in bucket.nodes}
    nodes = []
    for node in graph.nodes:
        bucket = joined.get(node)
        if bucket is None:
            nodes.append(node)
        elif node is bucket.nodes[0]:
            nodes.append(_fused(bucket.nodes, steps, rank))
    graph.nodes = nodes


def _find_buckets(graph: Graph, steps: Mapping[Node, Redistribution]) -> list[_Bucket]:
    known: dict[Value, int] = {}
    last: dict[object, _Bucket] = {}
    buckets = []
    for position, node in enumerate(graph.nodes):
        place = position
        if node in steps and _is_small(steps[node]):
            key = _key(node, steps[node])
            bucket = last.get(key)
            if bucket is not None and all(known.get(value, -1) < bucket.position for value in node.inputs):
                bucket.nodes.append(node)
                place = bucket.position
            else:
                last[key] = bucket = _Bucket(position, [node])
                buckets.append(bucket)
        known.update((value, place) for value in node.outputs)
        # A parameter that is overwritten here must not be read earlier instead.
        known.update((node.inputs[index], position) for index in node.operator.updates)
    return buckets


def _is_small(step: Redistribution) -> bool:
    largest = max(prod(layout.local_shape(layout.devices.first_rank)) for layout in (step.source, step.target))
    return step.kind != "slice" and largest <= _LARGEST


def _key(node: Node, step: Redistribution) -> object:
    """Return what collectives that travel together have in common."""
    return step.kind, step.source.reduction, step.source.devices, step.axes, node.inputs[0].spec.dtype


def _fused(nodes: list[Node], steps: Mapping[Node, Redistribution], rank: int) -> Node:
    """Return the node that stands for all of them and has their outputs."""
    operator = fused_operator([steps[node] for node in nodes], rank).configured(scope=nodes[0].operator.scope)
    inputs = tuple(value for node in nodes for value in node.inputs)
    outputs = tuple(value for node in nodes for value in node.outputs)
    fused = Node(operator, nodes[0].name, inputs, outputs)
    for index, value in enumerate(outputs):
        value.node, value.index = fused, index
    return fused
