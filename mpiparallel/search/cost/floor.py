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
from mpiparallel.search.machine.kernel_times import KernelTimes
from mpiparallel.search.machine.machine import Machine


def least_seconds(graph: Graph, machine: Machine, ranks: int) -> float:
    """Return a lower bound of the seconds, for all strategies of a graph on this number of ranks."""
    return sum(seconds for _, seconds in _shares(graph, machine, ranks))


def least_seconds_in_stages(piece: Graph, machine: Machine, ranks: int, stages: int, micro_batches: int) -> float:
    """Return a lower bound of the seconds, for all strategies in stages with ``micro_batches`` like ``piece``, or more.

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
    """Yield a lower bound of the seconds of each node on this number of ranks.

    A rank launches at least its even share of operations and bytes. So the bound is the time of one rank that is as
    quick as all together. A part of a product runs at the best rate known for its size or a smaller one. Of an
    element-wise operator only operations count, because it may become one kernel with its neighbours.
    """
    together = replace(
        machine,
        products=_best(machine.products, ranks),
        products_16=_best(machine.products_16, ranks),
        operand_bandwidth=machine.operand_bandwidth * ranks,
        operation_rate=machine.operation_rate * ranks,
        memory_bandwidth=machine.memory_bandwidth * ranks,
        kernels=tuple(one.shared(ranks) for one in machine.kernels),
    )
    inside = tuple(KernelTimes(one.name, operations=one.operations) for one in together.kernels)
    prices = Prices(together)
    computing = Prices(replace(together, launch=0.0, memory_bandwidth=inf, kernels=inside))
    for node in live_nodes(graph):
        if not node.operator.is_view:
            inputs, outputs = ([value.spec for value in side] for side in (node.inputs, node.outputs))
            is_fused = type(node.operator).expression is not Operator.expression
            yield node, (computing if is_fused else prices).operator(node.operator, inputs, outputs)


def _best(products: tuple[tuple[float, float], ...], ranks: int) -> tuple[tuple[float, float], ...]:
    """Return the best rates of all ranks for products of each size or a smaller one."""
    best = accumulate((rate for _, rate in products), max)
    return tuple((size, rate * ranks) for (size, _), rate in zip(products, best, strict=True))


def _depending(graph: Graph) -> set[Node]:
    """Return the nodes that depend on the inputs: what is made of parameters alone serves all micro-batches."""
    known: set[Value] = set(graph.inputs)
    found: set[Node] = set()
    for node in graph.nodes:
        if not known.isdisjoint(node.inputs):
            found.add(node)
            known.update(node.outputs)
    return found
