"""What a step costs: the local graph of the first rank, node after node, as it runs; and what it costs at least."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.graph import Graph
from mpiparallel.search.cost.memory import live_nodes
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import timed_nodes
from mpiparallel.search.machine.machine import Machine


@dataclass(frozen=True)
class StepCost:
    """The seconds of a step: of computing, and of communication by its kind."""

    computing: float
    moving: dict[str, float]

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.computing + sum(self.moving.values())


def step_cost(sharded: ShardedGraph, prices: Prices) -> StepCost:
    """Return what a step of a laid-out graph costs, by what its first rank runs."""
    computing = 0.0
    moving: dict[str, float] = defaultdict(float)
    for timed in timed_nodes(sharded, prices):
        if timed.step is None:
            computing += timed.seconds
        else:
            moving[timed.step.kind] += timed.seconds
    return StepCost(computing, dict(moving))


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
        total += (operations / ranks / rate + machine.launch) * machine.turns
    return total
