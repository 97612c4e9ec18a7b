"""The local graph of a rank, node after node, with what each takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mpiparallel.compile.localise import localise
from mpiparallel.compile.rank_graph import RankGraph
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Node
from mpiparallel.parallel.overlap import Start, Wait
from mpiparallel.parallel.redistribution import Redistribution
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.measured_kernels import node_cost, node_specs


@dataclass(frozen=True)
class TimedNode:
    """A node of a local graph and its seconds; ``step`` is the redistribution that it is, if it is one.

    A collective that ``begins`` a ``Start`` is under way until the node that ``ends`` it.
    """

    node: Node
    seconds: float
    step: Redistribution | None = None
    begins: Start | None = None
    ends: Start | None = None

    @property
    def byte_count(self) -> int:
        """The bytes of a rank's part of what is moved: before it is summed, after it is gathered or exchanged."""
        if self.step is None:
            return 0
        layout = self.step.source if self.step.kind in ("reduce", "reduce_scatter") else self.step.target
        return layout.largest_size * self.node.inputs[0].spec.dtype.itemsize


def timed_nodes(sharded: ShardedGraph, prices: Prices) -> list[TimedNode]:
    """Return what the first rank of a laid-out graph runs, in order, but for views, which take no time.

    Each collective is priced by itself.
    """
    local = localise(sharded, sharded.devices.first_rank)
    found = []
    for node in local.graph.nodes:
        step = local.steps.get(node)
        if step is not None:
            found.append(_timed_step(node, step, prices))
        elif not node.operator.is_view:
            found.append(_timed_operator(node, prices))
    return found


def scheduled_nodes(local: RankGraph, prices: Prices) -> list[TimedNode]:
    """Return what a rank runs as it runs it: collectives of one message, and nodes of one kernel, are priced as one.

    Each has its part of the seconds. Where collectives overlap they are under way from where they are started to where
    their results are needed.
    """
    found: list[TimedNode] = []
    computed = 0.0
    for node in local.graph.nodes:
        if node in local.steps:
            start = node.operator if isinstance(node.operator, Start) else None
            found += (replace(one, begins=start) for one in _in_one_message(local.steps[node], computed, prices))
            computed = 0.0
            continue
        before = len(found)
        if isinstance(node.operator, Wait):
            found.append(TimedNode(node, 0.0, ends=node.operator.start))
        elif node.members:
            found += _in_one_kernel(node, prices)
        elif not node.operator.is_view:
            found.append(_timed_operator(node, prices))
        computed += sum(one.seconds for one in found[before:])
    return found


def _timed_operator(node: Node, prices: Prices) -> TimedNode:
    return TimedNode(node, prices.operator(node.operator, *node_specs(node)))


def _timed_step(node: Node, step: Redistribution, prices: Prices) -> TimedNode:
    return TimedNode(node, prices.step(step, node.inputs[0].spec.dtype.itemsize), step)


def _in_one_message(
    steps: Sequence[tuple[Node, Redistribution]], computed: float, prices: Prices
) -> Iterator[TimedNode]:
    """Yield steps that travel together, each with its part of the seconds by its bytes."""
    sizes = [prices.bytes_moved(step, node.inputs[0].spec.dtype.itemsize) for node, step in steps]
    first, total = steps[0][1], sum(sizes)
    seconds = prices.collective(first.kind, first.source.devices, first.axes, total, computed)
    for (node, step), size in zip(steps, sizes, strict=True):
        yield TimedNode(node, seconds * (size / total if total else 1 / len(sizes)), step)


def _in_one_kernel(node: Node, prices: Prices) -> Iterator[TimedNode]:
    """Yield the nodes of one kernel, which reads and writes what is not passed on inside it once."""
    alone = [_timed_operator(one, prices) for one in node.members]
    part = prices.kernel(node.operator, node_cost(node), *node_specs(node)) / sum(one.seconds for one in alone)
    return (replace(one, seconds=one.seconds * part) for one in alone)
