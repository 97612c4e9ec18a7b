"""The graph that one rank runs: localised, scheduled, and what is small or side by side made one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mpiparallel.compile.elementwise_fusion import fuse_elementwise
from mpiparallel.compile.joined_updates import join_updates
from mpiparallel.compile.localise import localise
from mpiparallel.compile.schedule import schedule_collectives
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.parallel.redistribution import Redistribution


@dataclass(frozen=True)
class RankGraph:
    """The graph that a rank runs; ``steps`` are the redistributions that each collective does, and the node of each."""

    graph: Graph
    steps: Mapping[Node, tuple[tuple[Node, Redistribution], ...]]


def rank_graph(
    sharded: ShardedGraph, rank: int, overlaps: bool = False, fuses: bool = True, on_device: bool = False
) -> RankGraph:
    """Return the graph that ``rank`` runs, without what nothing needs.

    Every rank's has the same collectives in order. With ``overlaps`` they start before their results are
    needed. With ``fuses`` neighbouring element-wise operators become one, and updates of small parameters;
    ``on_device``, that is on a GPU, those of all.
    """
    local = localise(sharded, rank)
    # First when collectives run, then what is fused: only neighbours are, in the order in which they will run.
    done = schedule_collectives(local.graph, local.steps, rank, overlaps)
    if fuses:
        fuse_elementwise(local.graph)
        join_updates(local.graph, of_any_size=on_device)
    return RankGraph(local.graph, {node: tuple((one, local.steps[one]) for one in some) for node, some in done.items()})


def local_graph(
    sharded: ShardedGraph, rank: int, overlaps: bool = False, fuses: bool = True, on_device: bool = False
) -> Graph:
    """Return the graph of `rank_graph`."""
    return rank_graph(sharded, rank, overlaps, fuses, on_device).graph
