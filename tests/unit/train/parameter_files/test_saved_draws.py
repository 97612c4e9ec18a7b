"""A loop of one's own with dropout, saved and taken up again, and what trains by ``Model`` beside it."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication.threads import run_world
from mpiparallel.context import GRAPH_MODE, PYNATIVE_MODE
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError
from mpiparallel.train.model import Model

X = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)


def network(cut=None):
    dense = nn.Dense(6, 4, weight_init=0.1)
    dropout = nn.Dropout(p=0.4)
    if cut is not None:
        dense.matmul.shard(((cut[0], 1), (cut[1], 1)))
        dropout.dropout.shard((cut,))
    return nn.SequentialCell([dense, dropout]).set_train()


class OwnLoop:
    """Gradient descent by ``value_and_grad``, with an evaluation after each step."""

    def __init__(self, cut=None):
        self.network = network(cut)
        self.optimizer = nn.SGD(self.network.trainable_params(), 0.1)
        self.both = ms.value_and_grad(nn.WithLossCell(self.network, nn.MSELoss()), None, self.optimizer.parameters)

    def steps(self, count, evaluates=True):
        losses = []
        for _ in range(count):
            loss, gradients = self.both(ms.Tensor(X), ms.Tensor(Y))
            self.optimizer(gradients)
            losses.append(loss.asnumpy().item())
            if evaluates:
                self.network.set_train(False)(ms.Tensor(X))
                self.network.set_train()
        return losses


@pytest.mark.parametrize("suffix", [".ckpt", ".h5", ".npz", ".safetensors"])
def test_a_loop_goes_on_with_the_masks_that_it_would_have_had(tmp_path, suffix) -> None:
    path = tmp_path / f"state{suffix}"
    ms.set_seed(4)
    straight = OwnLoop()
    losses = straight.steps(3)
    ms.save_checkpoint(straight.network, path)
    losses += straight.steps(3)
    ms.set_seed(4)
    resumed = OwnLoop()
    assert ms.load_param_into_net(resumed.network, ms.load_checkpoint(path)) == ([], [])
    assert resumed.steps(3, evaluates=False) == losses[3:]


def test_a_loop_goes_on_with_them_from_the_files_of_all_ranks(tmp_path) -> None:
    ms.set_seed(4)
    straight = OwnLoop()
    straight.steps(2)
    ms.save_checkpoint(straight.network, tmp_path / "rank_0.ckpt")
    losses = straight.steps(2)
    ms.set_seed(4)
    resumed = OwnLoop()
    assert ms.load_distributed_checkpoint(resumed.network, [tmp_path / "rank_0.ckpt"]) == ([], [])
    assert resumed.steps(2) == losses


def saved_and_gone_on(_communicator, path, cut, loads):
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    ms.set_seed(4)
    loop = OwnLoop(cut)
    if loads:
        loop.both(ms.Tensor(X), ms.Tensor(Y))
        ms.load_checkpoint(path, loop.network)
        return loop.steps(2)
    loop.steps(2)
    ms.save_checkpoint(loop.network, path)
    return loop.steps(2)


@pytest.mark.parametrize(("before", "after"), [((2, 1), (1, 2)), ((2, 2), None)])
def test_a_loop_goes_on_with_them_on_another_cut(tmp_path, before, after) -> None:
    path = tmp_path / "state.ckpt"
    wanted, *_ = run_world(before[0] * before[1], saved_and_gone_on, path, before, False)
    for losses in run_world(2, saved_and_gone_on, path, after, True):
        np.testing.assert_allclose(losses, wanted, rtol=1e-5)


def test_where_nothing_was_drawn_nothing_is_kept(tmp_path) -> None:
    ms.save_checkpoint(network().set_train(False), tmp_path / "state.ckpt")
    assert sorted(ms.load_checkpoint(tmp_path / "state.ckpt")) == ["0.bias", "0.weight"]
    OwnLoop().steps(1)
    ms.save_checkpoint({"w": X}, tmp_path / "dict.ckpt")
    assert sorted(ms.load_checkpoint(tmp_path / "dict.ckpt")) == ["w"]


@pytest.mark.parametrize("kept", [np.array([1, 2]), np.array(1.0), np.array(-3)])
def test_what_is_no_count_of_draws_is_refused_and_nothing_is_changed(kept) -> None:
    cell = network()
    given = {"0.weight": ms.Tensor(np.ones((4, 6), np.float32)), "random_draws": ms.Tensor(kept)}
    with pytest.raises(CheckpointError, match=r"'random_draws' is .*must be one integer of at least 0"):
        ms.load_param_into_net(cell, given)
    assert (cell[0].weight.asnumpy() == np.float32(0.1)).all()


def trained(mode, draws_between):
    ms.set_context(mode=mode)
    ms.set_seed(4)
    cell = network()
    model = Model(cell, nn.MSELoss(), nn.SGD(cell.trainable_params(), 0.1), metrics={"loss"})
    data = NumpySlicesDataset((X, Y), ["x", "y"], shuffle=False).batch(4)
    losses = []
    for _ in range(3):
        losses.append(float(model.run_step([X, Y])))
        if draws_between:
            cell.set_train()(ms.Tensor(X))
            model.predict(ms.Tensor(X))
            model.eval(data)
            model.train_network.set_train()
    return losses


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
def test_what_is_drawn_or_evaluated_beside_a_training_leaves_its_masks(mode) -> None:
    losses = trained(mode, False)
    assert trained(mode, True) == losses
    assert ms.get_rng_state().asnumpy().tolist() == [4, 3]


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
def test_the_masks_of_a_model_depend_on_its_step_alone(mode) -> None:
    ms.set_context(mode=mode)

    def losses(first, count):
        cell = network()
        model = Model(cell, nn.MSELoss(), nn.SGD(cell.trainable_params(), 0.0))
        model.train_network.set_train()
        model.step = first
        return [float(model.run_step([X, Y])) for _ in range(count)]

    straight = losses(0, 4)
    assert len(set(straight)) == 4
    assert losses(2, 2) == straight[2:]
