"""The training loop that MindSpore's users write themselves, and single steps of a model."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError

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


@pytest.mark.parametrize("steps", [1, 2])
def test_a_step_of_a_model_takes_as_many_batches_as_are_accumulated_and_returns_the_mean_of_their_losses(steps) -> None:
    network = nn.Dense(6, 3, weight_init=0.1, has_bias=False)
    optimizer = nn.SGD(network.trainable_params(), 0.1)
    model = ms.Model(network, nn.MSELoss(), optimizer, accumulation_steps=steps)
    batches = [[X[start::2], Y[start::2]] for start in range(2)] if steps == 2 else [[X, Y]]
    losses = [float(model.run_step(*batches).asnumpy()) for _ in range(3)]
    # Halves of one size: the mean of their losses, and of their gradients, is that of the whole.
    np.testing.assert_allclose(losses, expected(3), rtol=1e-5)
    assert model.step == 3
    for count in {0, 1, 2, 3} - {steps}:
        with pytest.raises(ConfigurationError) as raised:
            model.run_step(*[[X, Y]] * count)
        assert str(raised.value) == f"Model.run_step: {count} batches are given; a step takes {steps}"
    assert model.step == 3


@pytest.mark.parametrize("method", ["run_step", "eval", "predict", "resume"])
def test_a_rank_that_does_not_train_is_told_where_to_call_what_it_cannot_do(method) -> None:
    def job(communicator):
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        network = nn.Dense(6, 3)
        model = ms.Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1), metrics={"loss"})
        assert (model.active, model.has_left, model.training_ranks, model.generation) == (True, False, (0, 1), 0)
        model.reshard(ranks=[1])
        assert (model.has_left, model.training_ranks, model.generation) == (False, (1,), 1)
        if model.active:
            return None
        call = getattr(model, method)
        with pytest.raises(ConfigurationError) as raised:
            call(*{"run_step": ([X, Y],), "predict": (ms.Tensor(X),)}.get(method, (None, None)))
        return str(raised.value)

    words = (
        f"Model.{method}: this rank does not train since Model.reshard, and holds nothing of the network; call it "
        "where model.active is true, or reshard to this rank first"
    )
    assert run_world(2, job) == [words, None]
