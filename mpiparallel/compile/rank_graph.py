"""The graph that one rank runs: localised, scheduled, and what is small or side by side made one."""

from __future__ import annotations

from collections.abc import Mapping

from mpiparallel.compile.channels_last import put_channels_last
from mpiparallel.compile.conditional_updates import decide_on_device
from mpiparallel.compile.device_fusion.attention_fusion import fuse_attention
from mpiparallel.compile.device_fusion.cross_entropy_fusion import fuse_cross_entropy
from mpiparallel.compile.device_fusion.product_fusion import fuse_products
from mpiparallel.compile.elementwise_fusion import fuse_elementwise
from mpiparallel.compile.joined_updates import join_updates
from mpiparallel.compile.localise import localise
from mpiparallel.compile.schedule_collectives import schedule_collectives
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.parallel.redistribution import Redistribution


@dataclass(frozen=True)
class RankGraph:
    """The graph that a rank runs; ``steps`` are the redistributions that each collective does, and the node of each."""

    graph: Graph
    steps: Mapping[Node, tuple[tuple[Node, Redistribution], ...]]


def rank_graph(
    sharded: ShardedGraph,
    rank: int,
    overlaps: bool = False,
    fuses: bool = True,
    on_device: bool = False,
    in_tf32: bool = False,
) -> RankGraph:
    """Return the graph that ``rank`` runs, without what nothing needs.

    All ranks have the same collectives in the same order. With ``overlaps`` they start before their results are
    needed. With ``fuses`` neighbouring element-wise operators become one, and so do updates of small parameters.
    ``on_device``, that is on a GPU, updates of all parameters become one. There attention is computed in blocks, a
    cross entropy comes with its gradient, and what is added to a product with that. Updates read the flags that they
    wait for. Images that tensor cores convolve have their channels last in memory: those of 16 bits, and ``in_tf32``
    those of float32.
    """
    local = localise(sharded, rank)
    if fuses and on_device:
        fuse_attention(local.graph)
    # First when collectives run, then what is fused: only neighbours are, in the order in which they will run.
    done = schedule_collectives(local.graph, local.steps, rank, overlaps)
    if on_device:
        decide_on_device(local.graph)
    if fuses and on_device:
        fuse_cross_entropy(local.graph)
        fuse_products(local.graph)
    if fuses:
        fuse_elementwise(local.graph)
        join_updates(local.graph, of_any_size=on_device)
    if on_device:
        put_channels_last(local.graph, in_tf32)
    return RankGraph(local.graph, {node: tuple((one, local.steps[one]) for one in some) for node, some in done.items()})


def local_graph(
    sharded: ShardedGraph,
    rank: int,
    overlaps: bool = False,
    fuses: bool = True,
    on_device: bool = False,
    in_tf32: bool = False,
) -> Graph:
    """Return the graph of `rank_graph`."""
    return rank_graph(sharded, rank, overlaps, fuses, on_device, in_tf32).graph
