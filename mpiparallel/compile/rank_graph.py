"""The graph that one rank runs: localised, scheduled, and what is small or side by side made one."""

from __future__ import annotations

from mpiparallel.compile.elementwise_fusion import fuse_elementwise
from mpiparallel.compile.joined_updates import join_updates
from mpiparallel.compile.localise import localise
from mpiparallel.compile.schedule import schedule_collectives
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.graph import Graph


def local_graph(
    sharded: ShardedGraph, rank: int, overlaps: bool = False, fuses: bool = True, on_device: bool = False
) -> Graph:
    """Return the graph that ``rank`` runs, without what nothing needs.

    Every rank's has the same collectives in order. With ``overlaps`` they start before their results are
    needed. With ``fuses`` neighbouring element-wise operators become one, and updates of small parameters;
    ``on_device``, that is on a GPU, those of all.
    """
    local = localise(sharded, rank)
    # First when collectives run, then what is fused: only neighbours are, in the order in which they will run.
    schedule_collectives(local.graph, local.steps, rank, overlaps)
    if fuses:
        fuse_elementwise(local.graph)
        join_updates(local.graph, of_any_size=on_device)
    return local.graph
