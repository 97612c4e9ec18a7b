"""The training loop that MindSpore's users write themselves."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world

X = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)


def expected(steps):
    """Return the losses of plain gradient descent in NumPy."""
    weight, losses = np.full((3, 6), 0.1), []
    for _ in range(steps):
        error = X @ weight.T - Y
        losses.append((error**2).mean())
        weight -= 0.1 * 2 * error.T @ X / error.size
    return losses


def own_loop(_communicator, style):
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = nn.Dense(6, 3, weight_init=0.1, has_bias=False)
    optimizer = nn.SGD(network.trainable_params(), 0.1)
    with_loss = nn.WithLossCell(network, nn.MSELoss())
    data = ms.Tensor(X), ms.Tensor(Y)
    if style == "cell":
        step = nn.TrainOneStepCell(with_loss, optimizer).set_train()
        return [float(step(*data)) for _ in range(4)]
    if style == "value_and_grad":
        both = ops.value_and_grad(with_loss, None, optimizer.parameters)
    else:
        weights = ms.ParameterTuple(network.trainable_params())
        gradients = ops.GradOperation(get_by_list=True)(with_loss, weights)
        both = lambda *inputs: (with_loss(*inputs), gradients(*inputs))  # noqa: E731
    losses = []
    for _ in range(4):
        loss, found = both(*data)
        optimizer(found)
        losses.append(float(loss))
    return losses


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("style", ["cell", "value_and_grad", "GradOperation"])
def test_losses_are_those_of_gradient_descent(style, ranks) -> None:
    for losses in run_world(ranks, own_loop, style):
        np.testing.assert_allclose(losses, expected(4), rtol=1e-5)
