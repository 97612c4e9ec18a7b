"""The cells around a network: with a loss, for evaluation, and for one step of training."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import nn, ops
from mpiparallel.context import PYNATIVE_MODE, set_context
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor

GENERATOR = np.random.default_rng(6)
X, Y, WEIGHT = GENERATOR.normal(size=(8, 3)), GENERATOR.normal(size=(8, 2)), GENERATOR.normal(size=(2, 3))


def network():
    return nn.SequentialCell(nn.Dense(3, 2, Tensor(WEIGHT), dtype=np.float64))


def step_of_gradient_descent(rate):
    difference = X @ WEIGHT.T - Y
    return (difference**2).mean(), WEIGHT - rate * (2 * difference.T @ X / difference.size)


def test_with_loss_cell_keeps_names_and_returns_the_loss():
    backbone = network()
    cell = nn.WithLossCell(backbone, nn.MSELoss())
    assert [parameter.name for parameter in cell.get_parameters()] == ["0.weight", "0.bias"]
    assert cell.backbone_network is backbone
    assert float(cell(Tensor(X), Tensor(Y))) == pytest.approx(step_of_gradient_descent(0)[0], rel=1e-12)


def test_with_eval_cell_returns_loss_outputs_and_label():
    loss, outputs, label = nn.WithEvalCell(network(), nn.MSELoss())(Tensor(X), Tensor(Y))
    np.testing.assert_allclose(outputs.asnumpy(), X @ WEIGHT.T, rtol=1e-12)
    np.testing.assert_array_equal(label.asnumpy(), Y)
    assert float(loss) == pytest.approx(((X @ WEIGHT.T - Y) ** 2).mean())


@pytest.mark.parametrize("mode", [0, PYNATIVE_MODE])
@pytest.mark.parametrize("sens", [1.0, 1024.0])
def test_one_step_returns_the_loss_from_before_and_descends(mode, sens):
    backbone = network()
    optimizer = nn.Momentum(backbone.trainable_params(), 0.5, 0.0, loss_scale=sens)
    train = nn.TrainOneStepCell(nn.WithLossCell(backbone, nn.MSELoss()), optimizer, sens).set_train()
    set_context(mode=mode)
    try:
        loss = train(Tensor(X), Tensor(Y))
    finally:
        set_context(mode=0)
    wanted, weight = step_of_gradient_descent(0.5)
    assert float(loss) == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(backbone[0].weight.asnumpy(), weight, rtol=1e-12)
    assert train.optimizer.step == 1
    assert [parameter.name for parameter in backbone.get_parameters()] == ["0.weight", "0.bias"]


def test_many_steps_reach_the_least_squares():
    backbone = network()
    optimizer = nn.Momentum(backbone.trainable_params(), 0.1, 0.9)
    train = nn.TrainOneStepCell(nn.WithLossCell(backbone, nn.MSELoss()), optimizer)
    losses = [float(train(Tensor(X), Tensor(Y))) for _ in range(200)]
    best = np.linalg.lstsq(np.c_[X, np.ones(8)], Y, rcond=None)[0]
    np.testing.assert_allclose(backbone[0].weight.asnumpy(), best[:3].T, atol=1e-4)
    assert losses[-1] < losses[0]


class Dropping(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(3, 2, Tensor(WEIGHT), dtype=np.float64)
        self.dropout = nn.Dropout(0.5)

    def construct(self, x):
        return ops.ReduceSum()(self.dropout(self.dense(x)))


def test_dropout_differs_from_step_to_step_and_goes_on_from_a_restored_count():
    def train(steps_before):
        cell = Dropping()
        optimizer = nn.SGD(cell.trainable_params(), 0.0)
        optimizer.global_step.set_data(np.array([steps_before], np.int32))
        return nn.TrainOneStepCell(cell, optimizer).set_train()

    straight = train(0)
    losses = [float(straight(Tensor(X))) for _ in range(4)]
    assert len(set(losses)) == 4
    restored = train(2)
    assert [float(restored(Tensor(X))) for _ in range(2)] == losses[2:]


class MindSporesStep(nn.TrainOneStepCell):
    """A step as MindSpore's users write it: the loss, then the gradient of the same network on the same inputs."""

    def construct(self, *inputs):
        loss = self.network(*inputs)
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        self.optimizer(self.grad_reducer(self.grad(self.network, self.weights)(*inputs, sens)))
        return loss


def test_a_step_of_ones_own_runs_the_network_once_and_dropout_alike_for_loss_and_gradient():
    cells = []
    for kind in (nn.TrainOneStepCell, MindSporesStep):
        network = Dropping()
        step = kind(network, nn.SGD(network.trainable_params(), 0.1)).set_train()
        cells.append((step, [float(step(Tensor(X))) for _ in range(3)], network.dense.weight.asnumpy()))
    (built_in, wanted, weight), (own, found, own_weight) = cells
    assert found == wanted
    np.testing.assert_allclose(own_weight, weight, rtol=1e-15)
    kinds = [sorted(node.operator.name for node in cell.sharded_graph(X).graph.nodes) for cell in (built_in, own)]
    assert kinds[0].count("MatMul") == kinds[1].count("MatMul")


class Accumulating(nn.Cell):
    """A cell that is compiled as its flag says, as in MindSpore's sample of accumulation."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Dense(3, 2, Tensor(WEIGHT), dtype=np.float64)
        self.accumulation = False

    def construct(self, x):
        return self.inner(x) if self.accumulation else self.inner(x) * 2.0


def test_a_flag_chooses_what_is_compiled_and_fp16_is_a_flag_too():
    cell = Accumulating()
    plain = cell(Tensor(X)).asnumpy()
    flagged = cell.add_flags_recursive(accumulation=True)(Tensor(X)).asnumpy()
    np.testing.assert_array_equal(plain, 2 * flagged)
    np.testing.assert_array_equal(cell.add_flags_recursive(accumulation=False)(Tensor(X)).asnumpy(), plain)
    assert cell.inner.accumulation is False
    assert cell.add_flags_recursive(fp16=True)(Tensor(X)).dtype == np.float16
    with pytest.raises(ConfigurationError, match="must be a number or a text"):
        cell.add_flags(accumulation=X)
