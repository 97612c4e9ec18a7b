"""Seconds that no strategies go below: all work dealt out evenly, at the best rates that the machine has for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from math import inf

from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.search.cost.memory import live_nodes
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Machine


def least_seconds(graph: Graph, machine: Machine, ranks: int) -> float:
    """Return seconds that no strategies for a graph on so many ranks go below."""
    return sum(seconds for _, seconds in _shares(graph, machine, ranks))


def least_seconds_in_stages(piece: Graph, machine: Machine, ranks: int, stages: int, micro_batches: int) -> float:
    """Return seconds that no strategies in stages go below, with so many micro-batches as ``piece`` is one, or more.

    A step takes as long as its longest stage, and no less than all stages on average.
    """
    last = max((place for place, node in enumerate(piece.nodes) if node.notes.origin is not None), default=0)
    once = set(piece.nodes[last + 1 :])
    depends = _depending(piece)
    total = 0.0
    for node, seconds in _shares(piece, machine, ranks // stages):
        total += seconds * (micro_batches if node in depends and node not in once else 1)
    return total / stages


def _shares(graph: Graph, machine: Machine, ranks: int) -> Iterator[tuple[Node, float]]:
    """Yield what each node takes at least on so many ranks.

    A rank has its even share of operations and bytes at least, and launches them. That is what one rank would take that
    is as quick as all together; a part of a product goes at the best rate that there is for its size or less. What is
    computed element by element may be one kernel with its neighbours, so that its operations alone are sure.
    """
    best = accumulate((rate for _, rate in machine.products), max)
    together = replace(
        machine,
        products=tuple((size, rate * ranks) for (size, _), rate in zip(machine.products, best, strict=True)),
        operation_rate=machine.operation_rate * ranks,
        memory_bandwidth=machine.memory_bandwidth * ranks,
    )
    prices, computing = Prices(together), Prices(replace(together, launch=0.0, memory_bandwidth=inf))
    for node in live_nodes(graph):
        if not node.operator.is_view:
            inputs, outputs = ([value.spec for value in side] for side in (node.inputs, node.outputs))
            is_fused = type(node.operator).expression is not Operator.expression
            yield node, (computing if is_fused else prices).operator(node.operator, inputs, outputs)


def _depending(graph: Graph) -> set[Node]:
    """Return the nodes that depend on the inputs: what is made of parameters alone serves all micro-batches."""
    known: set[Value] = set(graph.inputs)
    found: set[Node] = set()
    for node in graph.nodes:
        if not known.isdisjoint(node.inputs):
            found.add(node)
            known.update(node.outputs)
    return found
