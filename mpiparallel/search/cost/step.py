"""What a step costs: the local graph of the first rank, node after node, as it runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import timed_nodes


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
