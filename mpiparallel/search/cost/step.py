"""What a step costs: the local graph of the first rank, node after node, as it runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mpiparallel.compile.localise import localise
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.search.cost.prices import Prices


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
    local = localise(sharded, sharded.devices.first_rank)
    computing = 0.0
    moving: dict[str, float] = defaultdict(float)
    for node in local.graph.nodes:
        step = local.steps.get(node)
        if step is not None:
            moving[step.kind] += prices.step(step, node.inputs[0].spec.dtype.itemsize)
        elif not node.operator.is_view:
            inputs, outputs = ([value.spec for value in side] for side in (node.inputs, node.outputs))
            computing += prices.operator(node.operator, inputs, outputs)
    return StepCost(computing, dict(moving))
