"""Where values are by strategies and by rules, on graphs that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.place import place
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.compile.strategy_policy import takers_of_gradients
from mpiparallel.errors import StrategyError
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator, Strategy
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration

SPEC = TensorSpec((8, 8), np.dtype(np.float32))
FOUR = DeviceMatrix((4,))
CONFIGURATION = ParallelConfiguration("semi_auto_parallel", device_num=4)
WHOLE, ROWS, COLUMNS = (1, 1), (4, 1), (1, 4)


class Update(Operator):
    """Changes its first input."""

    updates = (0,)


class Made(Graph):
    """A graph of 8 x 8 matrices that is told node by node."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.add_input("x", SPEC)

    def add(self, operator: Operator, *inputs: Value, **notes: Any) -> Node:
        return self.add_node(operator, operator.name, inputs, [SPEC], Notes(**notes))

    def weight(self, name: str = "weight") -> Value:
        return self.add_parameter(Parameter(np.ones((8, 8), np.float32), name), SPEC)


def out(node: Node) -> Value:
    return node.outputs[0]


def placed(graph: Graph, strategies: dict[Node, Strategy] | None = None, **given: Any) -> ShardedGraph:
    return place(graph, CONFIGURATION, Strategies(strategies or {}, given.pop("outputs", {})), given.pop("held", {}))


def cuts(sharded: ShardedGraph, node: Node) -> list[tuple[int, ...]]:
    """How the inputs and the outputs of a node are cut."""
    placement = sharded.placements[node]
    return [layout.cuts for layout in (*placement.inputs, *placement.outputs)]


def test_an_operator_without_a_strategy_is_cut_by_its_first_dim_and_a_weight_is_whole() -> None:
    graph = Made()
    weight = graph.weight()
    product = graph.add(ops.MatMul(), graph.x, weight)
    sharded = placed(graph)
    assert cuts(sharded, product) == [ROWS, WHOLE, ROWS]
    assert sharded.stored["weight"].cuts == sharded.used["weight"].cuts == WHOLE
    assert sharded.layouts[graph.x].cuts == WHOLE


def test_a_weight_is_where_the_operator_with_a_strategy_takes_it_and_others_take_it_there() -> None:
    graph = Made()
    weight = graph.weight()
    first = graph.add(ops.MatMul(), graph.x, weight)
    second = graph.add(ops.MatMul(), out(first), weight)
    cast = graph.add(ops.Cast(), weight, follows=True)
    sharded = placed(graph, {second: ((1, 1), (1, 4))})
    assert sharded.stored["weight"].cuts == COLUMNS
    assert cuts(sharded, second) == [WHOLE, COLUMNS, COLUMNS]
    assert cuts(sharded, cast) == [COLUMNS, COLUMNS]
    # Without a strategy of its own it would be cut by rows, and take the weight whole.
    assert cuts(sharded, first) == [WHOLE, COLUMNS, COLUMNS]


def test_a_strategy_for_a_cast_of_a_weight_is_one_for_the_weight() -> None:
    graph = Made()
    cast = graph.add(ops.Cast(), graph.weight(), follows=True)
    product = graph.add(ops.MatMul(), graph.x, out(cast))
    sharded = placed(graph, {product: ((1, 1), (1, 4))})
    assert sharded.stored["weight"].cuts == COLUMNS
    assert cuts(sharded, cast) == [COLUMNS, COLUMNS]


def test_a_weight_stays_where_ranks_hold_it_if_these_are_as_many() -> None:
    graph = Made()
    product = graph.add(ops.MatMul(), graph.x, graph.weight())
    rows = Layout((8, 8), FOUR, ((0,), ()))
    for held, wanted in ((rows, ROWS), (Layout((8, 8), DeviceMatrix((2,)), ((0,), ())), COLUMNS)):
        sharded = placed(graph, {product: ((1, 1), (1, 4))}, held={"weight": held})
        assert sharded.stored["weight"].cuts == wanted
        assert sharded.used["weight"].cuts == COLUMNS


def test_what_follows_takes_the_layouts_of_its_inputs_and_an_output_strategy_moves_at_once() -> None:
    graph = Made()
    product = graph.add(ops.MatMul(), graph.x, graph.weight())
    follows = graph.add(ops.ReLU(), out(product), follows=True)
    plain = graph.add(ops.ReLU(), out(product))
    sharded = placed(graph, {product: ((1, 4), (4, 1))}, outputs={product: ((1, 4),)})
    # The product is a sum of terms, and is summed to columns.
    assert sharded.placements[product].outputs[0].partial
    assert (sharded.layouts[out(product)].cuts, sharded.layouts[out(product)].partial) == (COLUMNS, ())
    assert cuts(sharded, follows) == [COLUMNS, COLUMNS]
    assert cuts(sharded, plain) == [ROWS, ROWS]


def test_a_gradient_is_where_its_operator_had_its_inputs() -> None:
    graph = Made()
    weight = graph.weight()
    product = graph.add(ops.MatMul(), graph.x, weight)
    cotangent = graph.add_input("cotangent", SPEC)
    graph.cotangents = {product: (cotangent,)}
    of_weight = graph.add(ops.MatMul(transpose_a=True), graph.x, cotangent, origin=product)
    graph.gradients = {out(of_weight): weight}
    sharded = placed(graph, {product: ((4, 1), (1, 1))})
    # Both are cut by rows, as the product had them, so each rank has a term of the gradient.
    (first, second), (made,) = sharded.placements[of_weight].inputs, sharded.placements[of_weight].outputs
    assert (first.cuts, second.cuts) == (ROWS, ROWS)
    assert (made.cuts, made.partial) == (WHOLE, (0,))


@pytest.mark.parametrize(("alike", "is_kept"), [(True, True), (False, False)])
def test_terms_of_a_gradient_are_added_as_they_are_where_all_are_partial_alike(alike: bool, is_kept: bool) -> None:
    graph = Made()
    weight = graph.weight()
    products = [graph.add(ops.MatMul(), graph.x, graph.x) for _ in range(2)]
    total = graph.add(ops.Add(), *map(out, products), like=weight)
    graph.add(ops.MatMul(), graph.x, weight)
    terms, rows = ((1, 4), (4, 1)), ((4, 1), (1, 1))
    sharded = placed(graph, dict(zip(products, (terms, terms if alike else rows), strict=True)))
    placement = sharded.placements[total]
    assert {layout.canonical for layout in (*placement.inputs, *placement.outputs)} == {placement.outputs[0].canonical}
    assert bool(placement.outputs[0].partial) is is_kept
    assert placement.outputs[0].cuts == WHOLE


def test_an_update_is_where_its_parameter_is_and_other_shapes_are_whole() -> None:
    graph = Made()
    weight, moment = graph.weight(), graph.weight("moment")
    product = graph.add(ops.MatMul(), graph.x, weight)
    rate = graph.add_input("rate", TensorSpec((), np.dtype(np.float32)))
    both = Update()
    both.updates = (0, 1)
    update = graph.add_node(both, "update", [weight, moment, out(product), rate], [])
    sharded = placed(graph, {product: ((1, 1), (1, 4))})
    assert cuts(sharded, update) == [COLUMNS, COLUMNS, COLUMNS, ()]
    assert (sharded.stored["moment"].cuts, sharded.used["moment"].cuts) == (COLUMNS, COLUMNS)


def test_a_sum_over_steps_is_laid_out_as_what_is_added_and_cannot_be_added_to_another() -> None:
    graph = Made()
    total = graph.weight("total")
    product = graph.add(ops.MatMul(), graph.x, graph.x)
    keeping = Update()
    keeping.keeps_partial = True
    added = graph.add_node(keeping, "added", [total, out(product)], [])
    sharded = placed(graph, {product: ((1, 4), (4, 1))})
    (first, second) = sharded.placements[added].inputs
    assert first == second == sharded.stored["total"] == sharded.used["total"]
    assert first.partial
    rows = Layout((8, 8), FOUR, ((0,), ()))
    with pytest.raises(StrategyError) as raised:
        placed(graph, {product: ((1, 4), (4, 1))}, held={"total": rows})
    assert str(raised.value) == (
        f"total: a gradient laid out as {first} cannot be added to one laid out as {rows}; give all batches one shape, "
        "for example with drop_remainder=True"
    )


def test_on_one_rank_all_is_whole() -> None:
    graph = Made()
    product = graph.add(ops.MatMul(), graph.x, graph.weight())
    sharded = place(graph, ParallelConfiguration("semi_auto_parallel"), Strategies({product: ((4, 1), (1, 1))}), {})
    assert cuts(sharded, product) == [WHOLE, WHOLE, WHOLE]


def test_the_first_node_of_a_gradient_that_takes_a_value_is_known_but_for_what_is_returned() -> None:
    graph = Made()
    forward = graph.add(ops.ReLU(), graph.x)
    first, second = (graph.add(ops.ReLU(), out(forward), origin=forward) for _ in range(2))
    graph.add(ops.ReLU(), out(first), like=graph.x)
    assert takers_of_gradients(graph) == {out(forward): first, out(first): graph.nodes[-1]}
    graph.outputs = [out(forward)]
    assert takers_of_gradients(graph) == {out(first): graph.nodes[-1]}
    assert second.inputs == first.inputs
