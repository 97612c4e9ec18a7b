"""Where parameters and gradients are where no strategy says so, on graphs that are made by hand."""

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


def in_shards(graph: Graph, strategies: dict[Node, Strategy] | None = None) -> ShardedGraph:
    """Lay out a graph whose parameters are stored in shards."""
    return placed(graph, strategies, enable_parallel_optimizer=True, optimizer_threshold=0)


def cuts(sharded: ShardedGraph, node: Node) -> list[tuple[int, ...]]:
    """How the inputs and the outputs of a node are cut."""
    placement = sharded.placements[node]
    return [layout.cuts for layout in (*placement.inputs, *placement.outputs)]


def kept_as(sharded: ShardedGraph, name: str = "weight") -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How a parameter is cut where it is stored, and where it is used."""
    return sharded.stored[name].cuts, sharded.used[name].cuts


def test_strategies_are_those_of_operators_and_updates_but_not_of_gradients() -> None:
    graph = Made()
    plain = graph.add(ops.ReLU(), graph.x)
    first = graph.add(ops.MatMul().shard(BY_COLUMNS, (COLUMNS,)), out(plain), graph.weight())
    graph.add(ops.MatMul().shard(BY_COLUMNS, (COLUMNS,)), out(first), graph.x, origin=first)
    last = graph.add(ops.ReLU().shard((ROWS,)), out(first))
    update = graph.update(ops.Assign().shard((ROWS, ROWS), (ROWS,)), graph.weight("other"), graph.x, origin=first)
    found = Strategies.of(graph)
    assert found.inputs == {first: BY_COLUMNS, last: (ROWS,), update: (ROWS, ROWS)}
    assert found.outputs == {first: (COLUMNS,)}
    loaded = Strategies.of(graph, {"ReLU": (COLUMNS,)})
    assert loaded.inputs == {plain: (COLUMNS,), first: BY_COLUMNS, last: (COLUMNS,), update: (ROWS, ROWS)}


def test_inputs_are_where_ranks_are_fed_their_pieces() -> None:
    graph = Made()
    assert placed(graph, full_batch=False).layouts[graph.x].cuts == ROWS
    assert placed(graph, full_batch=True).layouts[graph.x].cuts == WHOLE


def test_constants_and_parameters_that_are_only_returned_are_whole() -> None:
    graph = Made()
    constant, weight = graph.constant(), graph.weight()
    product = graph.add(ops.MatMul(), graph.x, constant)
    graph.outputs = [weight]
    sharded = placed(graph, {product: BY_COLUMNS})
    assert sharded.layouts[constant].cuts == sharded.layouts[weight].cuts == WHOLE
    assert cuts(sharded, product) == [WHOLE, COLUMNS, COLUMNS]
    assert kept_as(sharded) == (WHOLE, WHOLE)


def test_a_gradient_before_an_operator_does_not_hide_its_strategy() -> None:
    graph = Made()
    first = graph.add(ops.ReLU(), graph.x)
    graph.add(ops.ReLU(), out(first), origin=first)
    product = graph.add(ops.MatMul(), out(first), graph.weight())
    assert kept_as(placed(graph, {product: BY_COLUMNS})) == (COLUMNS, COLUMNS)


@pytest.mark.parametrize(("operator", "wanted"), [(ops.Cast, COLUMNS), (ops.Abs, WHOLE), (ops.ReLU, WHOLE)])
def test_a_cast_alone_stands_for_the_weight_of_which_it_is(operator: type[Operator], wanted: tuple[int, ...]) -> None:
    graph = Made()
    graph.add(ops.Cast(), graph.x, follows=True)
    made = graph.add(operator(), graph.weight(), follows=True)
    product = graph.add(ops.MatMul(), graph.x, out(made))
    assert kept_as(placed(graph, {product: BY_COLUMNS})) == (wanted, wanted)


def test_a_weight_without_a_strategy_is_where_the_first_operator_takes_it() -> None:
    graph = Made()
    weight = graph.weight()
    total = graph.add(ops.Add(), graph.x, weight)
    product = graph.add(ops.MatMul(), graph.x, weight)
    sharded = placed(graph)
    assert kept_as(sharded) == (ROWS, ROWS)
    assert cuts(sharded, total) == [ROWS, ROWS, ROWS]
    assert cuts(sharded, product)[1] == ROWS
    graph = Made()
    cast = graph.add(ops.Cast(), graph.weight(), follows=True)
    graph.add(ops.Add(), graph.x, out(cast))
    assert kept_as(placed(graph)) == (ROWS, ROWS)


def test_what_is_made_of_weights_alone_does_not_cut_them() -> None:
    graph = Made()
    graph.add(ops.Add(), graph.weight("one"), graph.weight("two"))
    sharded = placed(graph)
    assert kept_as(sharded, "one") == kept_as(sharded, "two") == (WHOLE, WHOLE)


def test_a_weight_is_stored_in_shards_and_used_whole() -> None:
    graph = Made()
    weight = graph.weight()
    product = graph.add(ops.MatMul(), graph.x, weight)
    cast = graph.add(ops.Cast(), weight)
    mixed = graph.add(ops.Add(), weight, graph.x, follows=True)
    sharded = in_shards(graph)
    assert kept_as(sharded) == (ROWS, WHOLE)
    assert sharded.layouts[weight].cuts == ROWS
    assert cuts(sharded, product) == [ROWS, WHOLE, ROWS]
    assert cuts(sharded, cast) == [WHOLE, WHOLE]
    assert cuts(sharded, mixed) == [WHOLE, WHOLE, WHOLE]


@pytest.mark.parametrize("with_constant", [True, False])
def test_what_an_optimizer_makes_of_parameters_alone_is_made_of_their_shards(with_constant: bool) -> None:
    graph = Made()
    weight = graph.weight()
    graph.add(ops.MatMul(), graph.x, weight)
    beside = graph.constant() if with_constant else weight
    first = graph.add(ops.Mul(), weight, beside, follows=True)
    second = graph.add(ops.ReLU(), out(first), follows=True)
    sharded = in_shards(graph)
    assert cuts(sharded, first) == [ROWS, ROWS, ROWS]
    assert cuts(sharded, second) == [ROWS, ROWS]


class NoRule(Operator):
    """Nothing says how it can be cut."""


def test_on_one_rank_an_operator_without_a_rule_is_placed_and_outputs_stay() -> None:
    graph = Made()
    node = graph.add(NoRule(), graph.x)
    product = graph.add(ops.MatMul(), graph.x, graph.x)
    sharded = placed(graph, device_num=1, outputs={product: (COLUMNS,)})
    assert cuts(sharded, node) == [WHOLE, WHOLE]
    assert sharded.layouts[out(product)].cuts == WHOLE


def test_on_two_ranks_an_output_is_moved_as_it_is_asked_for() -> None:
    graph = Made()
    product = graph.add(ops.MatMul(), graph.x, graph.weight())
    sharded = placed(graph, {product: ((2, 1), (1, 1))}, device_num=2, outputs={product: ((1, 2),)})
    assert sharded.placements[product].outputs[0].cuts == (2, 1)
    assert sharded.layouts[out(product)].cuts == (1, 2)


class Backward(Made):
    """A product with what is made of a weight, and the gradient of both."""

    def __init__(self, operator: Operator, of_weight: bool = True) -> None:
        super().__init__()
        self.made = self.add(operator, self.weight() if of_weight else self.x, follows=True)
        self.product = self.add(ops.MatMul(), self.x, out(self.made))
        self.cotangent = self.add_input("cotangent", SPEC)
        self.of_made = self.add(ops.MatMul(transpose_a=True), self.x, self.cotangent, origin=self.product)
        self.cotangents = {self.product: (self.cotangent,), self.made: (out(self.of_made),)}


@pytest.mark.parametrize(
    ("operator", "of_weight", "strategy", "is_kept"),
    [
        (ops.Cast(), True, BY_ROWS, True),
        # Of no terms, of an operator that is not linear, or of what is no weight, nothing is left to be summed later.
        (ops.Cast(), True, BY_COLUMNS, False),
        (ops.ReLU(), True, BY_ROWS, False),
        (ops.Cast(), False, BY_ROWS, False),
    ],
)
def test_terms_of_the_gradient_of_a_weight_pass_through_its_cast(
    operator: Operator, of_weight: bool, strategy: Strategy, is_kept: bool
) -> None:
    graph = Backward(operator, of_weight)
    passed = graph.add(operator, out(graph.of_made), origin=graph.made)
    placement = placed(graph, {graph.product: strategy}).placements[passed]
    assert [bool(layout.partial) for layout in (*placement.inputs, *placement.outputs)] == [is_kept] * 2


def test_terms_that_meet_another_value_in_the_gradient_of_a_cast_are_summed() -> None:
    graph = Backward(ops.Cast())
    both = graph.add(ops.Add(), out(graph.of_made), graph.x, origin=graph.made)
    placement = placed(graph, {graph.product: BY_ROWS}).placements[both]
    assert [layout.partial for layout in (*placement.inputs, *placement.outputs)] == [()] * 3


def test_terms_of_the_gradient_of_a_weight_that_meets_another_value_are_summed() -> None:
    graph = Made()
    weight, cotangent = graph.weight(), graph.add_input("cotangent", SPEC)
    product = graph.add(ops.MatMul(), graph.x, graph.x)
    total = graph.add(ops.Add(), weight, graph.x, follows=True)
    gradient = graph.add(ops.MatMul(transpose_a=True), graph.x, cotangent, origin=product)
    graph.cotangents = {product: (cotangent,), total: (out(gradient),)}
    narrowed = graph.add(ops.Cast(), out(gradient), origin=total)
    sharded = placed(graph, {product: BY_ROWS})
    assert sharded.layouts[out(gradient)].partial
    assert sharded.placements[narrowed].inputs[0].partial == ()


def test_what_is_made_on_the_way_of_a_gradient_stays_where_it_is() -> None:
    graph = Backward(ops.Cast())
    first = graph.add(ops.ReLU(), graph.cotangent, origin=graph.product)
    second = graph.add(ops.ReLU(), out(first), origin=graph.product)
    third = graph.add(ops.Mul(), out(second), graph.constant(), origin=graph.product)
    sharded = placed(graph, {graph.product: BY_ROWS})
    assert cuts(sharded, first) == cuts(sharded, second) == [ROWS, ROWS]
    assert cuts(sharded, third) == [ROWS, ROWS, ROWS]


def test_what_is_done_to_a_finished_gradient_is_done_to_the_shard_that_a_rank_updates() -> None:
    graph = Made()
    weight = graph.weight()
    product = graph.add(ops.MatMul(), graph.x, weight)
    cotangent = graph.add_input("cotangent", SPEC)
    gradient = graph.add(ops.MatMul(transpose_a=True), graph.x, cotangent, origin=product)
    graph.cotangents, graph.gradients = {product: (cotangent,)}, {out(gradient): weight}
    first = graph.add(ops.ReLU(), out(gradient), follows=True)
    second = graph.add(ops.Mul(), graph.x, out(first), follows=True)
    third = graph.add(ops.ReLU(), out(second), follows=True)
    free = graph.add(ops.ReLU(), graph.x, follows=True)
    sharded = in_shards(graph, {product: BY_ROWS})
    assert sharded.layouts[out(gradient)].partial
    assert cuts(sharded, first) == cuts(sharded, third) == [ROWS, ROWS]
    assert cuts(sharded, second) == [ROWS, ROWS, ROWS]
    assert cuts(sharded, free) == [WHOLE, WHOLE]


def test_gradients_of_a_value_that_are_no_terms_are_added_where_the_value_is() -> None:
    graph = Made()
    terms = [graph.add(ops.ReLU(), graph.x) for _ in range(2)]
    total = graph.add(ops.Add(), *map(out, terms), like=graph.x)
    sharded = placed(graph)
    assert cuts(sharded, terms[0]) == cuts(sharded, terms[1]) == [ROWS, ROWS]
    assert cuts(sharded, total) == [WHOLE, WHOLE, WHOLE]
