"""Clipping by the norm of all gradients, on one rank and cut."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError

X = np.random.default_rng(0).normal(size=(6, 8))


class ClippedStep(nn.Cell):
    """A step of gradient descent with clipped gradients, as users write it."""

    def __init__(self, cut):
        super().__init__()
        self.network = nn.Dense(8, 4, weight_init="ones", dtype=ms.float64)
        self.network.matmul.shard(cut)
        self.optimizer = nn.SGD(self.network.trainable_params(), 1.0)
        self.both = ops.value_and_grad(lambda x: (self.network(x) ** 2).sum(), None, self.optimizer.parameters)

    def construct(self, x):
        loss, gradients = self.both(x)
        self.optimizer(ops.clip_by_global_norm(gradients, 0.5))
        return loss


def step(_communicator, cut, optimizer_parallel):
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=optimizer_parallel,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    cell = ClippedStep(cut)
    cell(ms.Tensor(X))
    return float(cell(ms.Tensor(X)))


def expected():
    weight, bias = np.ones((4, 8)), np.zeros(4)
    for _ in range(2):
        output = X @ weight.T + bias
        loss = (output**2).sum()
        of_weight, of_bias = 2 * output.T @ X, 2 * output.sum(0)
        scale = 0.5 / max(np.sqrt((of_weight**2).sum() + (of_bias**2).sum()), 0.5)
        weight, bias = weight - scale * of_weight, bias - scale * of_bias
    return loss


@pytest.mark.parametrize("optimizer_parallel", [False, True])
@pytest.mark.parametrize(("ranks", "cut"), [(1, ((1, 1), (1, 1))), (4, ((2, 1), (2, 1))), (4, ((1, 4), (1, 4)))])
def test_the_norm_is_that_of_the_whole_gradients(ranks, cut, optimizer_parallel) -> None:
    for loss in run_world(ranks, step, cut, optimizer_parallel):
        np.testing.assert_allclose(loss, expected(), rtol=1e-10)


def test_a_norm_of_zero_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"clip_norm 0.0 must be above 0"):
        ops.clip_by_global_norm((ms.Tensor([1.0]),), 0.0)


@pytest.mark.parametrize("nothing", [(), []])
def test_no_gradients_are_refused_by_name(nothing) -> None:
    with pytest.raises(ConfigurationError, match="clip_by_global_norm: there is no tensor to clip; give at least one"):
        ops.clip_by_global_norm(nothing)


class ClippedOneByOne(nn.TrainOneStepCell):
    """Each gradient is clipped by its own norm, as MindSpore's users write it."""

    def __init__(self, network, optimizer):
        super().__init__(network, optimizer)
        self.clip = nn.ClipByNorm()

    def prepared(self, gradients):
        return tuple(self.clip(gradient, ms.Tensor(np.asarray(0.1))) for gradient in gradients)


class SumOfSquares(nn.Cell):
    def __init__(self, cut):
        super().__init__()
        self.dense = nn.Dense(8, 4, weight_init="ones", dtype=ms.float64)
        self.dense.matmul.shard(cut)

    def construct(self, x):
        return (self.dense(x) ** 2).sum()


def clipped_one_by_one(_communicator, cut):
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=True,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    network = SumOfSquares(cut)
    cell = ClippedOneByOne(network, nn.SGD(network.trainable_params(), 1.0))
    cell(ms.Tensor(X))
    weight = network.dense.weight
    return weight.asnumpy().copy(), weight.box


@pytest.mark.parametrize(("ranks", "cut"), [(1, ((1, 1), (1, 1))), (4, ((2, 1), (2, 1))), (4, ((1, 4), (1, 4)))])
def test_the_norm_of_each_gradient_is_that_of_its_whole(ranks, cut) -> None:
    gradient = 2 * (X @ np.ones((8, 4))).T @ X
    wanted = 1.0 - 0.1 * gradient / np.linalg.norm(gradient)
    for weight, box in run_world(ranks, clipped_one_by_one, cut):
        rows, columns = (slice(*ends) for ends in zip(box.start, box.stop, strict=True))
        np.testing.assert_allclose(weight, wanted[rows, columns], rtol=1e-12)
