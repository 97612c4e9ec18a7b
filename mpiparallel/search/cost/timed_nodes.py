"""The local graph of a rank, node after node, with what each takes."""

from __future__ import annotations

from dataclasses import dataclass

from mpiparallel.compile.localise import localise
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.graph import Node
from mpiparallel.parallel.redistribution import Redistribution
from mpiparallel.search.cost.prices import Prices


@dataclass(frozen=True)
class TimedNode:
    """A node of a local graph and its seconds; ``step`` is the redistribution that it is, if it is one."""

    node: Node
    seconds: float
    step: Redistribution | None = None

    @property
    def byte_count(self) -> int:
        """The bytes of a rank's part of what is moved: before it is summed, after it is gathered or exchanged."""
        if self.step is None:
            return 0
        layout = self.step.source if self.step.kind in ("reduce", "reduce_scatter") else self.step.target
        return layout.largest_size * self.node.inputs[0].spec.dtype.itemsize


def timed_nodes(sharded: ShardedGraph, prices: Prices) -> list[TimedNode]:
    """Return what the first rank of a laid-out graph runs, in order, but for views, which take no time."""
    local = localise(sharded, sharded.devices.first_rank)
    found = []
    for node in local.graph.nodes:
        step = local.steps.get(node)
        if step is not None:
            found.append(TimedNode(node, prices.step(step, node.inputs[0].spec.dtype.itemsize), step))
        elif not node.operator.is_view:
            inputs, outputs = ([value.spec for value in side] for side in (node.inputs, node.outputs))
            found.append(TimedNode(node, prices.operator(node.operator, inputs, outputs)))
    return found
