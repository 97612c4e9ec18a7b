"""A parameter that several operators cut alike, though over other axes, has one layout that all of them take."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.graph.parameter import Parameter

RANKS = 8
RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(8, 8)).astype(np.float32)
INDICES = RANDOM.integers(0, 8, (8, 4)).astype(np.int32)


class Tied(nn.Cell):
    """The squares of products of the rows that are looked up in a table with all its rows."""

    def __init__(self, lookup=None, product=None):
        super().__init__()
        self.table = Parameter(TABLE.copy(), "table")
        self.lookup, self.product, self.sum = ops.Gather(), ops.MatMul(transpose_b=True), ops.ReduceSum()
        if lookup is not None:
            self.lookup.shard(lookup)
            self.product.shard(product)

    def construct(self, indices):
        found = self.lookup(self.table, indices, 0).reshape((-1, 8))
        return self.sum(self.product(found, self.table) ** 2)


# MindSpore has these under one layout: a lookup repeats on the first axis, and has indices before rows.
EQUAL = {
    "rows 4, indices 2": (((4, 1), (2, 1)), ((2, 1), (4, 1))),
    "rows 4, repeated": (((4, 1), (1, 1)), ((2, 1), (4, 1))),
    "rows 8": (((8, 1), (1, 1)), ((1, 1), (8, 1))),
}
# Each of these by itself would have the parts of the table on other ranks; MindSpore refuses them.
ALIKE = {
    "rows 2, repeated by both": (((2, 1), (1, 1)), ((2, 1), (2, 1))),
    "rows 2, repeated by the product": (((2, 1), (4, 1)), ((2, 1), (2, 1))),
    "columns 2, repeated by the lookup": (((1, 2), (1, 1)), ((4, 2), (1, 2))),
    "rows 2, columns 2": (((2, 2), (2, 1)), ((2, 2), (2, 2))),
}


@pytest.fixture(autouse=True)
def _semi_auto():
    configure(device_num=RANKS)
    yield
    ms.reset_auto_parallel_context()


def configure(**settings):
    ms.reset_auto_parallel_context()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, **settings)


def placed_table(sharded):
    """Return the layouts in which operators of the forward take the table."""
    pairs = [
        (given, layout)
        for node, placement in sharded.placements.items()
        if node.notes.origin is None
        for given, layout in zip(node.inputs, placement.inputs, strict=True)
    ]
    return [layout.canonical for given, layout in pairs if given.name == "table"]


@pytest.mark.parametrize("case", EQUAL | ALIKE)
def test_all_users_take_the_parameter_where_it_is(case) -> None:
    lookup, product = (EQUAL | ALIKE)[case]
    sharded = Tied(lookup, product).sharded_graph(INDICES)
    used = placed_table(sharded)
    assert used == [sharded.used["table"].canonical] * 2
    assert used[0].cuts == lookup[0] == product[1]


@pytest.mark.parametrize("case", EQUAL)
def test_mindspores_own_layout_is_kept_where_it_has_one(case) -> None:
    lookup, product = EQUAL[case]
    (table,) = set(placed_table(Tied(lookup, product).sharded_graph(INDICES)))
    assert [table.parts(rank)[0] for rank in range(RANKS)] == [rank % lookup[0][0] for rank in range(RANKS)]


class Chained(nn.Cell):
    """A product with a table and a lookup in it; with ``scale`` the product is with another, by which it is scaled."""

    def __init__(self, lookup, product, scale=None):
        super().__init__()
        self.table, self.other = Parameter(TABLE.copy(), "table"), Parameter(TABLE.T.copy(), "other")
        self.lookup, self.product = ops.Gather().shard(lookup), ops.MatMul(transpose_b=True).shard(product)
        self.scale = ops.Mul().shard(scale) if scale else None

    def construct(self, x, indices):
        if self.scale is None:
            return self.product(x, self.table), self.lookup(self.table, indices, 0)
        return self.lookup(self.table, indices, 0), self.scale(self.table, self.other), self.product(x, self.other)


def test_the_layout_is_the_one_that_moves_least() -> None:
    # To follow the lookup, on (4, 2), moves the product's output; to follow the product both other ends of the lookup.
    sharded = Chained(((2, 1), (4, 1)), ((2, 1), (2, 1))).sharded_graph(TABLE, INDICES)
    assert sharded.used["table"].devices.shape == (4, 2)
    assert [sharded.used["table"].parts(rank)[0] for rank in range(RANKS)] == [0, 1] * 4


def test_an_operator_that_follows_takes_its_other_parameters_along() -> None:
    sharded = Chained(((2, 1), (4, 1)), ((1, 1), (2, 1)), ((2, 1), (2, 1))).sharded_graph(TABLE, INDICES)
    assert sharded.used["table"].canonical == sharded.used["other"].canonical
    assert len(set(placed_table(sharded))) == 1


@pytest.mark.parametrize("case", EQUAL | ALIKE)
def test_it_trains_as_one_rank_does(case) -> None:
    def train(_communicator, *strategies):
        configure()
        network = Tied(*strategies)
        step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 1e-3, 0.9)).set_train()
        losses = [float(step(ms.Tensor(INDICES))) for _ in range(3)]
        return losses, ops.grad(network, None, network.table)(ms.Tensor(INDICES)).asnumpy()

    ((expected, expected_gradient),) = run_world(1, train)
    for losses, gradient in run_world(RANKS, train, *(EQUAL | ALIKE)[case]):
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("lookup", "product"),
    [(((8, 1), (1, 1)), None), (((2, 2), (2, 1)), None), (None, ((1, 1), (8, 1))), (None, ((4, 2), (1, 2)))],
)
def test_a_search_goes_by_the_strategy_of_one_where_not_all_of_the_other_go_with_it(lookup, product) -> None:
    def loss(communicator) -> float:
        ms.reset_auto_parallel_context()
        ms.set_auto_parallel_context(
            parallel_mode="auto_parallel", search_mode="dynamic_programming", full_batch=True, device_num=RANKS
        )
        network = Tied()
        if lookup:
            network.lookup.shard(lookup)
        else:
            network.product.shard(product)
        return float(network(ms.Tensor(INDICES)))

    rows = TABLE[INDICES.reshape(-1)].astype(np.float64)
    wanted = ((rows @ TABLE.T.astype(np.float64)) ** 2).sum()
    np.testing.assert_allclose(run_world(RANKS, loss), [wanted] * RANKS, rtol=1e-5)
