"""Where updates are, and the parameters that only they use, on graphs that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.place import place
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator, Strategy
from mpiparallel.graph.parameter import Parameter
from mpiparallel.parallel.configuration import ParallelConfiguration

SPEC = TensorSpec((8, 8), np.dtype(np.float32))
WHOLE, ROWS, COLUMNS = (1, 1), (4, 1), (1, 4)
BY_ROWS, BY_COLUMNS, BY_TERMS = ((4, 1), (1, 1)), ((1, 1), (1, 4)), ((1, 4), (4, 1))


class Update(Operator):
    """Changes its first input."""

    updates = (0,)


class Average(Update):
    """Changes its first input, which is laid out as the second."""

    laid_out_as = 1


class Made(Graph):
    """A graph of 8 x 8 matrices that is told node by node."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.add_input("x", SPEC)

    def add(self, operator: Operator, *inputs: Value, **notes: Any) -> Node:
        return self.add_node(operator, operator.name, inputs, [SPEC], Notes(**notes))

    def update(self, operator: Operator, *inputs: Value, **notes: Any) -> Node:
        return self.add_node(operator, operator.name, inputs, [], Notes(**notes))

    def weight(self, name: str = "weight") -> Value:
        return self.add_parameter(Parameter(np.ones((8, 8), np.float32), name), SPEC)

    def constant(self) -> Value:
        return self.add_constant(np.ones((8, 8), np.float32))


def out(node: Node) -> Value:
    return node.outputs[0]


def placed(graph: Graph, strategies: dict[Node, Strategy] | None = None, **settings: Any) -> ShardedGraph:
    outputs = settings.pop("outputs", {})
    configuration = ParallelConfiguration("semi_auto_parallel", **{"device_num": 4, **settings})
    return place(graph, configuration, Strategies(strategies or {}, outputs), {})


def cuts(sharded: ShardedGraph, node: Node) -> list[tuple[int, ...]]:
    """How the inputs and the outputs of a node are cut."""
    placement = sharded.placements[node]
    return [layout.cuts for layout in (*placement.inputs, *placement.outputs)]


def kept_as(sharded: ShardedGraph, name: str = "weight") -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How a parameter is cut where it is stored, and where it is used."""
    return sharded.stored[name].cuts, sharded.used[name].cuts


def test_an_update_of_what_nobody_has_placed_is_by_its_strategy_or_as_what_it_takes() -> None:
    graph = Made()
    rows = graph.add(ops.ReLU(), graph.x)
    by_strategy = graph.update(ops.Assign(), graph.weight("strategy"), graph.x)
    graph.update(Average(), graph.weight("average"), out(rows))
    graph.update(Update(), graph.weight("plain"), out(rows))
    sharded = placed(graph, {by_strategy: (COLUMNS, COLUMNS)})
    assert kept_as(sharded, "strategy") == (COLUMNS, COLUMNS)
    assert kept_as(sharded, "average") == (ROWS, ROWS)
    assert kept_as(sharded, "plain") == (WHOLE, WHOLE)


def test_an_average_of_terms_is_where_these_are_summed() -> None:
    graph = Made()
    terms = graph.add(ops.MatMul(), graph.x, graph.x)
    graph.update(Average(), graph.weight("average"), out(terms))
    sharded = placed(graph, {terms: BY_TERMS})
    assert sharded.layouts[out(terms)].partial
    assert sharded.stored["average"].partial == ()


@pytest.mark.parametrize("operator", [ops.Assign(), Average()])
def test_an_update_leaves_a_parameter_where_others_have_placed_it(operator: Operator) -> None:
    graph = Made()
    weight = graph.weight()
    product = graph.add(ops.MatMul(), graph.x, weight)
    rows = graph.add(ops.ReLU(), graph.x)
    update = graph.update(operator, weight, out(rows))
    strategies = {product: BY_COLUMNS} | ({update: (ROWS, ROWS)} if operator.laid_out_as is None else {})
    sharded = placed(graph, strategies)
    assert kept_as(sharded) == (COLUMNS, COLUMNS)
    assert cuts(sharded, update) == [COLUMNS, COLUMNS]


def test_a_parameter_that_an_update_only_reads_is_whole() -> None:
    graph = Made()
    graph.update(Update(), graph.weight(), graph.weight("read"))
    assert kept_as(placed(graph), "read") == (WHOLE, WHOLE)
