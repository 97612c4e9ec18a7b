"""``Model`` without an optimizer: the network returns the loss, and makes its update itself."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Model, boost, context, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError

CUT = ((2, 1), (2, 1))


class OwnStep(nn.Cell):
    """A training step as users write it."""

    def __init__(self, network, optimizer, steps=1):
        super().__init__(auto_prefix=False)
        self.network = network
        self.weights = optimizer.parameters
        self.optimizer = optimizer
        self.grad = ops.GradOperation(get_by_list=True)
        self.accumulate = boost.GradientAccumulation(steps, optimizer) if steps > 1 else None

    def construct(self, x, y):
        loss = self.network(x, y)
        gradients = self.grad(self.network, self.weights)(x, y)
        if self.accumulate is not None:
            return self.accumulate(loss, gradients)
        return ops.depend(loss, self.optimizer(gradients))


def data():
    random = np.random.default_rng(2)
    rows = random.normal(size=(24, 6)).astype(np.float32), random.normal(size=(24, 4)).astype(np.float32)
    return NumpySlicesDataset(rows, ["x", "y"], shuffle=False).batch(6)


def train(_communicator, make):
    context.set_seed(3)
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    layer = nn.Dense(6, 4)
    layer.matmul.shard(CUT)
    model = make(layer, nn.Momentum(layer.trainable_params(), 0.1, 0.9))
    model.train(2, data(), dataset_sink_mode=False)
    return {parameter.name: parameter.asnumpy() for parameter in layer.get_parameters()}, model.step


@pytest.mark.parametrize("steps", [1, 2])
def test_a_network_that_updates_itself_is_trained_as_by_model(steps) -> None:
    def own(layer, optimizer):
        return Model(OwnStep(nn.WithLossCell(layer, nn.MSELoss()), optimizer, steps))

    def by_model(layer, optimizer):
        return Model(layer, nn.MSELoss(), optimizer, accumulation_steps=steps)

    for (found, count), (wanted, updates) in zip(run_world(4, train, own), run_world(4, train, by_model), strict=True):
        assert count == updates * steps == 8
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


class CountingStep(nn.TrainOneStepCell):
    """A step whose writer has chosen names, and accumulates nothing."""

    def __init__(self, network, optimizer, steps):
        super().__init__(network, optimizer)
        self.accumulation_steps = steps

    def construct(self, *inputs):
        loss = self.network(*inputs)
        gradients = self.grad(self.network, self.weights)(*inputs, self.sens)
        return ops.depend(loss, self.optimizer(self.grad_reducer(gradients)))


def test_a_step_of_ones_own_may_keep_a_number_as_accumulation_steps() -> None:
    def own(layer, optimizer):
        return Model(CountingStep(nn.WithLossCell(layer, nn.MSELoss()), optimizer, 6))

    def by_model(layer, optimizer):
        return Model(layer, nn.MSELoss(), optimizer)

    (found, count), (wanted, updates) = run_world(1, train, own)[0], run_world(1, train, by_model)[0]
    assert count == updates == 8
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


def test_a_step_that_was_made_for_other_batches_than_are_set_is_refused() -> None:
    layer = nn.Dense(6, 4)
    optimizer = nn.Momentum(layer.trainable_params(), 0.1, 0.9)
    network = nn.WithLossCell(layer, nn.MSELoss())
    with pytest.raises(ConfigurationError, match=r"grad_accumulation_step 6 does not change a CountingStep.*for 1 a"):
        Model(CountingStep(network, optimizer, 6), accumulation_steps=6)
    assert Model(nn.TrainOneStepCell(network, optimizer, accumulation_steps=2), accumulation_steps=2).step == 0


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"or a network that has one"):
        Model(nn.WithLossCell(nn.Dense(6, 4), nn.MSELoss())).train(1, data())
    with pytest.raises(ConfigurationError, match=r"training needs an optimizer; give Model\(network, loss_fn, opt"):
        Model(nn.Dense(6, 4), nn.MSELoss()).train(1, data())
    with pytest.raises(ConfigurationError, match=r"grad_accumulation_step 2 needs .*boost\.GradientAccumulation"):
        Model(nn.WithLossCell(nn.Dense(6, 4), nn.MSELoss()), accumulation_steps=2).train(1, data())
    with pytest.raises(ConfigurationError, match="GradientAccumulation: optimizer is a Dense"):
        boost.GradientAccumulation(2, nn.Dense(6, 4))
