"""What a search has found."""

from __future__ import annotations

from collections.abc import Mapping

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Node
from mpiparallel.graph.operator import Strategy

NodeStrategies = Mapping[Node, Strategy]


@dataclass(frozen=True)
class Answer:
    """Strategies of nodes, and the seconds of a step by the cost model; nodes without one are placed by rules.

    No strategies go below ``bound`` seconds. ``memory`` are the bytes that a rank holds of parameters, states and what
    the gradient reads. ``stopped_early`` says that time ran out first.
    """

    strategies: NodeStrategies
    seconds: float
    bound: float
    memory: float
    stopped_early: bool = False

    @property
    def gap(self) -> float:
        """How far the seconds are above the bound, as a part of it; 0 for the best there is."""
        return max(0.0, self.seconds / self.bound - 1) if self.bound > 0 else 0.0
