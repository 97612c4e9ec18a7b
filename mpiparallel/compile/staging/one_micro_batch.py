"""What is worked out for one micro-batch on the ranks of one stage, and then holds for all of them."""

from __future__ import annotations

from collections.abc import Mapping

from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.copies import restricted
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration


def repeated(strategies: Strategies, graph: Graph) -> dict[Node, Strategy]:
    """Return the strategies that one micro-batch has for the nodes of all of them in ``graph``, which has more."""
    found = {_key(node): strategy for node, strategy in strategies.inputs.items()}
    nodes = [node for node in graph.nodes if node.notes.micro_batch is not None and node.is_forward]
    return {node: found[_key(node)] for node in nodes if _key(node) in found} if nodes else dict(strategies.inputs)


def _key(node: Node) -> tuple[object, ...]:
    """Return what is equal for the same operator in all micro-batches: they are named alike."""
    return node.name, node.operator.name, tuple(value.spec for value in node.inputs)


def held_in_stages(held: Mapping[str, Layout], configuration: ParallelConfiguration, size: int) -> dict[str, Layout]:
    """Return the layouts in which the stages of ``size`` ranks hold parameters, as if these ranks were the first."""
    found: dict[str, Layout] = {}
    for ranks in configuration.ranks_of_stages:
        for name, layout in held.items() if len(ranks) == size else ():
            own = restricted(layout, ranks)
            if own is not None:
                places = {rank: place for place, rank in enumerate(ranks)}
                found[name] = own.on_ranks([places[rank] for rank in own.devices.members])
    return found
