"""What a step costs: the local graph of the first rank, node after node, as it runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from mpiparallel.compile.conversions import Conversions
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Node, Value
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.halo import read_layouts
from mpiparallel.parallel.redistribution import redistribute
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


def step_cost(sharded: ShardedGraph, prices: Prices, live: Sequence[Node]) -> StepCost:
    """Return what a step of a laid-out graph costs, by what its first rank runs; ``live`` nodes are those it needs.

    It is the sum of what ``timed_nodes`` returns; the local graph itself is not made.
    """
    computing = sum(prices.computing(node, sharded.placements[node]) for node in live)
    moving: dict[str, float] = defaultdict(float)
    for (source, target, itemsize), count in Counter(_moves(sharded, live)).items():
        for step in redistribute(source, target):
            moving[step.kind] += prices.step(step, itemsize) * count
    return StepCost(computing, dict(moving))


def _moves(sharded: ShardedGraph, live: Sequence[Node]) -> Iterator[tuple[Layout, Layout, int]]:
    """Yield from which layout to which, and of how many bytes an element, values are moved for nodes and outputs."""
    conversions, outputs = Conversions[bool](), sharded.graph.outputs
    needed = {*outputs, *(value for node in live for value in node.inputs)}

    def converted(value: Value, wanted: Layout) -> Iterator[tuple[Layout, Layout, int]]:
        own = sharded.layouts[value]
        is_part = value.constant is not None and not wanted.partial
        if wanted is not own and not is_part and not conversions.known(value, wanted):
            conversions.keep(value, wanted, True)
            yield own, wanted, value.spec.dtype.itemsize

    for node in live:
        conversions.at(node)
        placement, unread = sharded.placements[node], node.operator.unread
        for index, (value, wanted) in enumerate(zip(node.inputs, read_layouts(node.operator, placement), strict=True)):
            if index not in unread:
                yield from converted(value, wanted)
        for value, made in zip(node.outputs, placement.outputs, strict=True):
            own = sharded.layouts[value]
            if own is not made and value in needed:
                yield made, own, value.spec.dtype.itemsize
        for index in node.operator.updates:
            conversions.forget(node.inputs[index])
    conversions.at(None)
    for value in outputs:
        yield from converted(value, sharded.output_layout(value))
