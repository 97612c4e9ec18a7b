"""Recomputation: the same bits from less memory."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import context, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.train import Model

BATCH, BLOCKS, STEPS = 64, 6, 3
WIDE = 272
"""A width at which weights are too large to travel together."""


def batch(width):
    return np.random.default_rng(3).standard_normal((BATCH, width))


class Block(nn.Cell):
    """A layer with what recomputation may get wrong: a strategy, dropout."""

    def __init__(self, index, cut, width):
        super().__init__()
        self.weight = ms.Parameter(ms.initializer("normal", (width, width), np.float64), name=f"block{index}.weight")
        self.product = ops.MatMul().shard((cut, (cut[1], 1)))
        self.dropout = nn.Dropout(keep_prob=0.9)

    def construct(self, x):
        return x + self.dropout(ops.tanh(self.product(ops.tanh(x), self.weight)))


class Net(nn.Cell):
    def __init__(self, recompute, cut, width, options):
        super().__init__()
        self.blocks = nn.CellList([Block(index, cut, width) for index in range(BLOCKS)])
        if recompute:
            for block in self.blocks:
                block.recompute(**options)

    def construct(self, x):
        for block in self.blocks:
            x = block(x)
        return ops.reduce_mean(x * x)


def trained(communicator, recompute, cut, optimizer_parallel, options, width=16):
    """Return losses, weights and the bytes of memory for what a step computes."""
    context.reset_auto_parallel_context()
    context.set_seed(5)
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=optimizer_parallel,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    network = Net(recompute, cut, width, options)
    model = Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9))
    model.train_network.set_train()
    losses = [float(model.run_step([batch(width)])) for _ in range(STEPS)]
    weights = [parameter.array.copy() for parameter in network.trainable_params()]
    (compiled,) = model.train_network.program.programs
    return losses, weights, compiled.program.arena_bytes


@pytest.mark.parametrize(
    ("ranks", "cut", "optimizer_parallel", "options"),
    [
        (1, (1, 1), False, {}),
        (4, (2, 2), False, {}),
        (4, (4, 1), True, {"parallel_optimizer_comm_recompute": True}),
    ],
)
def test_recomputed_blocks_train_to_the_same_bits_in_less_memory(ranks, cut, optimizer_parallel, options):
    kept = run_world(ranks, trained, False, cut, optimizer_parallel, options)
    again = run_world(ranks, trained, True, cut, optimizer_parallel, options)
    for (losses, weights, most), (losses_again, weights_again, least) in zip(kept, again, strict=True):
        assert losses_again == losses
        for one, other in zip(weights, weights_again, strict=True):
            np.testing.assert_array_equal(other, one)
        assert least < 0.75 * most


def test_weights_gathered_again_are_not_kept_whole():
    def memory(options):
        return run_world(4, trained, True, (4, 1), True, options, WIDE)[0][2]

    assert memory({"parallel_optimizer_comm_recompute": True}) < 0.6 * memory({})


def test_an_operator_can_be_recomputed_alone():
    def gradient(operator):
        return ops.grad(lambda x: ops.reduce_sum(operator(ops.exp(x)) * operator(x)))(ms.Tensor(batch(4))).asnumpy()

    np.testing.assert_array_equal(gradient(ops.Tanh().recompute()), gradient(ops.Tanh()))


def test_moving_averages_of_a_recomputed_cell_move_once_a_step():
    def averages(recompute):
        context.set_seed(2)
        norm = nn.BatchNorm2d(3)
        cell = norm.recompute() if recompute else norm
        network = nn.SequentialCell([cell, nn.Flatten()])
        x = np.random.default_rng(0).standard_normal((4, 3, 5, 5)).astype(np.float32)
        loss = nn.WithLossCell(network, lambda y, label: ops.reduce_mean(y * y * label))
        step = nn.TrainOneStepCell(loss, nn.SGD(network.trainable_params(), 0.1)).set_train()
        step(ms.Tensor(x), ms.Tensor(np.ones((4, 75), np.float32)))
        return norm.moving_mean.asnumpy()

    np.testing.assert_array_equal(averages(True), averages(False))
