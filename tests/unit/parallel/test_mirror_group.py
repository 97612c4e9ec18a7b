"""Gradients under ``optimizer_weight_shard_size``: summed over shard groups that hold the same part, and no others.

MindSpore 2.10 finds the peers of rank 0 at a distance of device_num / (replicas / size) ranks. Where a weight is cut on
an axis left of its replicas, these hold other parts of it. Source: its planner's output for a weight of two parts and
four replicas, which sums the gradients of ranks 0 and 4.
"""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.graph.parameter import Parameter

RANKS, SHARD_SIZE, REPLICAS = 8, 2, 4
WEIGHT = np.random.default_rng(0).normal(size=(8, 6))
X = np.random.default_rng(1).normal(size=(6, 8))


class Product(nn.Cell):
    """The sum of the squares of ``weight @ x`` or, with the weight on the right, of ``x.T @ weight.T``."""

    def __init__(self, strategy, on_the_right):
        super().__init__()
        self.on_the_right = on_the_right
        self.weight = Parameter(WEIGHT.T.copy() if on_the_right else WEIGHT.copy(), "weight")
        self.matmul = ops.MatMul().shard(strategy)

    def construct(self, x):
        y = self.matmul(x, self.weight) if self.on_the_right else self.matmul(self.weight, x)
        return ops.ReduceSum()(y * y)


# The device matrix is (2, 4) in both: two parts on the left axis. On the right one all ranks compute the same, or each
# sees other samples, so that the gradient has terms.
CASES = {"repeated": (((1, 1), (1, 2)), True), "terms": (((2, 1), (1, 4)), False)}


def train(communicator, strategy, on_the_right):
    """Return the weight after three steps, and its stored layout."""
    ms.reset_auto_parallel_context()
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=True,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        optimizer_weight_shard_size=SHARD_SIZE,
    )
    strategy = strategy if communicator.size == RANKS else ((1, 1), (1, 1))
    network = Product(strategy, on_the_right)
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.01, 0.9)).set_train()
    x = ms.Tensor(X.T.copy() if on_the_right else X)
    stored = step.sharded_graph(x).stored["weight"]
    gradient = ops.grad(network, None, network.weight)(x).asnumpy()
    losses = [float(step(x)) for _ in range(3)]
    return losses, gradient, np.array(network.weight.asnumpy()), stored


@pytest.mark.parametrize("case", CASES)
def test_training_is_that_of_one_device_where_mindspores_mirror_group_mixes_parts(case) -> None:
    ((losses, gradient, weight, _),) = run_world(1, train, *CASES[case])
    for rank, (found, own_gradient, part, stored) in enumerate(run_world(RANKS, train, *CASES[case])):
        np.testing.assert_allclose(found, losses, rtol=1e-12)
        np.testing.assert_allclose(own_gradient, gradient, rtol=1e-12)
        np.testing.assert_allclose(part, weight[stored.box(rank).within(whole_box(stored))], rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_peers_of_a_shard_are_those_of_the_same_part(case) -> None:
    _, _, _, stored = run_world(RANKS, train, *CASES[case])[0]
    theirs = tuple(range(0, RANKS, RANKS // (REPLICAS // SHARD_SIZE)))
    assert theirs == (0, 4)
    assert stored.box(4) != stored.box(0), "so their group would add gradients of different parts"
    assert stored.replica_group(0) == (0, 2)
    assert {stored.box(rank) for rank in stored.replica_group(0)} == {stored.box(0)}
    assert len({stored.box(rank) for rank in range(RANKS)}) == 2 * SHARD_SIZE


def whole_box(layout):
    return type(layout.box(0)).whole(layout.global_shape)
