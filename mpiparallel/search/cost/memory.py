"""The memory of a rank: what it keeps of parameters, and what one pass needs beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.buffer_plan import plan_buffers
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.search.cost.prices import bytes_held


@dataclass(frozen=True)
class RankMemory:
    """Bytes of a rank: of ``weights``, of ``states``, and of the ``arena``.

    All that is trained counts as weights; optimizer states, statistics and flags count as states. The arena has all
    values of one pass: activations, gradients, what is sent and received.
    """

    weights: int
    states: int
    arena: int

    @property
    def total(self) -> int:
        """All of it.

        >>> RankMemory(1, 2, 3).total
        6
        """
        return self.weights + self.states + self.arena


def rank_memory(sharded: ShardedGraph) -> RankMemory:
    """Return the memory of the first rank, the arena as its program will plan it."""
    weights = states = 0
    for name, value in sharded.graph.parameters.items():
        held = bytes_held(sharded.stored[name], value.spec.dtype.itemsize)
        if value.parameter is not None and value.parameter.requires_grad:
            weights += held
        else:
            states += held
    local = local_graph(sharded, sharded.devices.first_rank)
    return RankMemory(weights, states, plan_buffers(local).byte_count)


def live_nodes(graph: Graph) -> list[Node]:
    """Return the nodes that an output or an update needs."""
    kept = Graph(nodes=list(graph.nodes), outputs=list(graph.outputs))
    kept.remove_dead_nodes()
    return kept.nodes


def kept_for_gradient(live: Sequence[Node]) -> list[Value]:
    """Return what the network computes and its gradient, or an update, reads, but for what is computed once more.

    ``live`` are the nodes that anything needs.
    """
    again = {node for node in live if node.notes.segment is not None and node.notes.segment.recomputed}
    read = {value for node in live if node in again or not node.is_forward for value in node.inputs}
    made = [node for node in live if node.is_forward and node not in again and not node.operator.is_view]
    return [value for node in made for value in node.outputs if value in read]


def bytes_kept(sharded: ShardedGraph, kept: Iterable[Value]) -> int:
    """Return the bytes of parameters, states and what the gradient reads: the part of memory that strategies decide.

    ``kept`` is what the gradient reads.
    """
    layouts = {value: sharded.layouts[value] for value in kept}
    layouts.update((value, sharded.stored[name]) for name, value in sharded.graph.parameters.items())
    return sum(bytes_held(layout, value.spec.dtype.itemsize) for value, layout in layouts.items())
