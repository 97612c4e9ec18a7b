"""A step cannot be quicker than this."""

from __future__ import annotations

from mpiparallel.graph.graph import Graph
from mpiparallel.search.cost.memory import live_nodes
from mpiparallel.search.machine.machine import Machine


def least_seconds(graph: Graph, machine: Machine, ranks: int) -> float:
    """Return seconds that no strategies go below: all operations dealt out evenly, at the best rate there is."""
    best = max(rate for _, rate in machine.products)
    total = 0.0
    for node in live_nodes(graph):
        if node.operator.is_view:
            continue
        specs = ([value.spec for value in side] for side in (node.inputs, node.outputs))
        operations = node.operator.cost(*specs).operations
        rate = best if node.operator.kind == "gemm" else machine.operation_rate
        total += operations / ranks / rate + machine.launch
    return total
