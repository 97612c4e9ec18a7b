"""What strategies are searched for: a graph, its ranks, what is fixed, and the prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from mpiparallel.compile.place import place
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.cost.memory import kept_for_gradient, live_nodes
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.step import StepCost, step_cost


@dataclass(frozen=True)
class Task:
    """A graph for so many ranks; the strategies ``given`` stay, and so do the layouts of parameters that are held.

    Where it will be cut into ``stages``, a rank has an equal part of it.
    """

    graph: Graph
    configuration: ParallelConfiguration
    given: Strategies
    held: Mapping[str, Layout]
    prices: Prices
    stages: int = 1

    @cached_property
    def live(self) -> Sequence[Node]:
        """The nodes that an output or an update needs."""
        return live_nodes(self.graph)

    @cached_property
    def kept(self) -> Sequence[Value]:
        """What the network computes and its gradient reads."""
        return kept_for_gradient(self.live)

    def placed(self, strategies: Mapping[Node, Strategy]) -> ShardedGraph:
        """Return the graph laid out by the given strategies and these."""
        return place(self.graph, self.configuration, self.given.with_inputs(strategies), self.held)

    def cost(self, strategies: Mapping[Node, Strategy]) -> StepCost:
        """Return what a step by these strategies costs."""
        return step_cost(self.placed(strategies), self.prices, self.live)
