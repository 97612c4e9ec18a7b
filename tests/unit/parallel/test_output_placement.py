"""An operator's out_strategy: where its outputs are moved at once, and by which collective."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.errors import StrategyError

X, W = np.random.default_rng(1).normal(size=(8, 12)), np.random.default_rng(2).normal(size=(12, 6))


class Product(nn.Cell):
    def __init__(self, in_strategy: Any, out_strategy: Any) -> None:
        super().__init__()
        self.w = ms.Parameter(W, "w")
        self.matmul = ops.MatMul().shard(in_strategy, out_strategy)
        self.tanh = ops.Tanh() if not isinstance(out_strategy, tuple) else ops.Tanh().shard(out_strategy)

    def construct(self, x: Any) -> Any:
        return self.tanh(self.matmul(x, self.w))


def semi_auto(ranks: int | None = None) -> None:
    given = {} if ranks is None else {"device_num": ranks, "global_rank": 0}
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, **given)


def strategies(ranks: int) -> list[tuple[Any, Any]]:
    factors = [factor for factor in range(1, ranks + 1) if ranks % factor == 0]
    cuts = [cut for cut in product(factors, repeat=3) if ranks % (cut[0] * cut[1] * cut[2]) == 0]
    outs = [cut for cut in product(factors, repeat=2) if ranks % (cut[0] * cut[1]) == 0]
    return [(((a, b), (b, c)), (out,)) for a, b, c in cuts for out in outs]


def results(communicator: Any, pairs: list[tuple[Any, Any]]) -> list[Any]:
    semi_auto()
    found = []
    for pair in pairs:
        network = Product(*pair)
        loss, gradients = ops.value_and_grad(lambda x, net=network: (net(x) * net(x)).sum(), 0, [network.w])(
            ms.Tensor(X)
        )
        found.append([one.asnumpy() for one in (network(ms.Tensor(X)), loss, gradients[0], *gradients[1])])
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])
def test_values_and_gradients_are_those_of_numpy_wherever_the_output_is_moved(ranks: int) -> None:
    y = np.tanh(X @ W)
    inner = 2 * y * (1 - y * y)
    wanted = [y, (y * y).sum(), inner @ W.T, X.T @ inner]
    pairs = strategies(ranks)
    pairs = pairs[:: max(1, len(pairs) // 12)]
    for found in run_world(ranks, results, pairs):
        for pair, values in zip(pairs, found, strict=True):
            for value, other in zip(values, wanted, strict=True):
                np.testing.assert_allclose(value, other, rtol=1e-10, atol=1e-12, err_msg=str(pair))


@pytest.mark.parametrize(
    ("in_strategy", "out_strategy", "collectives"),
    [
        (((1, 4), (4, 1)), ((4, 1),), ["ReduceScatterBlocks"]),
        (((2, 2), (2, 1)), ((4, 1),), ["ReduceScatterBlocks"]),
        (((1, 4), (4, 1)), ((1, 1),), ["AllReduce"]),
        (((1, 2), (2, 2)), ((2, 2),), ["ReduceScatterBlocks"]),
        (((4, 1), (1, 1)), ((2, 1),), ["GatherBlocks"]),
        (((2, 1), (1, 1)), ((4, 1),), []),
        # Its columns stay cut as they were; who takes it next wants them over other ranks.
        (((2, 1), (1, 2)), ((1, 2),), ["GatherBlocks", "ExchangeBoxes"]),
    ],
)
def test_the_output_is_moved_at_once_by_one_collective(
    in_strategy: Any, out_strategy: Any, collectives: list[str]
) -> None:
    semi_auto(4)
    sharded = Product(in_strategy, out_strategy).sharded_graph(X)
    matmul = next(node for node in sharded.graph.nodes if node.operator.name == "MatMul")
    assert sharded.layouts[matmul.outputs[0]].cuts == out_strategy[0]
    sharded.output_layouts.update({value: sharded.layouts[value] for value in sharded.graph.outputs})
    names = [node.operator for node in local_graph(sharded, 0).nodes if node.operator.kind == "communication"]
    assert [operator.name for operator in names] == collectives


def compiled(network: Product, out_strategy: Any) -> Any:
    network.matmul.shard(((2, 2), (2, 1)), out_strategy)
    return network.sharded_graph(X)


@pytest.mark.parametrize(
    ("out_strategy", "said"),
    [
        (((2, 1), (1, 1)), "out_strategy .* has 2 entries for 1 outputs"),
        (((2,),), r"output 0 has 2 dims, but its out_strategy \(2,\) has 1 cuts"),
        (((3, 1),), "cuts into 3 parts, which does not divide the 4 devices"),
        (3, "out_strategy 3 must be a tuple of tuples"),
        (((0, 1),), "each cut must be an integer of at least 1"),
    ],
)
def test_an_out_strategy_that_does_not_fit_is_refused(out_strategy: Any, said: str) -> None:
    semi_auto(4)
    network = Product(((2, 2), (2, 1)), None)
    with pytest.raises(StrategyError, match=said):
        compiled(network, out_strategy)


def steps(communicator: Any) -> list[Any]:
    semi_auto()
    norm = ops.BatchNorm(True).shard(((2, 2), (2,), (2,), (2,), (2,)), ((1, 4),))
    extremes = ops.ArgMaxWithValue(1).shard(((1, 4),), ((4,), (2,)))
    vectors = [ms.Parameter(one, f"p{index}") for index, one in enumerate((W[:, 0], W[:, 1], W[:, 2], W[:, 3] ** 2))]
    found = [norm(ms.Tensor(X), *vectors)[0], *extremes(ms.Tensor(X))]
    return [one.asnumpy() for one in found]


def test_operators_made_of_steps_take_an_out_strategy() -> None:
    y = (X - X.mean(0)) / np.sqrt(X.var(0) + 1e-5) * W[:, 0] + W[:, 1]
    for found in run_world(4, steps):
        for one, wanted in zip(found, (y, X.argmax(1), X.max(1)), strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-10, atol=1e-12)
