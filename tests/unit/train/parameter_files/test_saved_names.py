"""Operators in strategy files: by the names that MindSpore writes, and cut by files that have these names."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy, write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyItem, StrategyRecord
from mpiparallel.communication.threads import run_world
from tests.unit.train.layers_of_each_kind import WRITTEN, Network, build

BY_CHANNELS = LayoutItem((2, 4), ((1,),))


@pytest.fixture(autouse=True)
def _reset():
    yield
    ms.reset_auto_parallel_context()


def layouts(sharded):
    return {name: layout.canonical for name, layout in sharded.used.items() if layout.global_shape}


@pytest.mark.parametrize("suffix", [".ckpt", ".json"])
def test_operators_have_mindspores_names(suffix, tmp_path) -> None:
    path = tmp_path / f"strategy{suffix}"
    build(Network(cut=True), strategy_ckpt_save_file=str(path))
    found = {name: item.cuts for name, item in read_strategy(path).strategies.items()}
    assert found == WRITTEN


def test_a_file_with_these_names_cuts_a_network_without_strategies(tmp_path) -> None:
    path = tmp_path / "strategy.ckpt"
    items = {name: StrategyItem(cuts) for name, cuts in WRITTEN.items()}
    write_strategy(path, StrategyRecord({"norm.gamma": BY_CHANNELS, "dense.bias": BY_CHANNELS}, items))
    loaded = build(Network(cut=False), strategy_ckpt_load_file=str(path))
    assert layouts(loaded) == layouts(build(Network(cut=True)))
    assert loaded.used["dense.bias"].cuts == loaded.used["norm.gamma"].cuts == (4,)


def test_a_file_with_the_names_of_earlier_versions_is_read_too(tmp_path) -> None:
    path = tmp_path / "strategy.ckpt"
    former = {"BiasAdd_dense": "Add_dense", "BatchNorm": "BNTrainingUpdate", "MakeTuple": "Concat"}
    items = {}
    for name, cuts in WRITTEN.items():
        for new, old in former.items():
            name = name.replace(new, old)
        items[name] = StrategyItem(cuts)
    write_strategy(path, StrategyRecord({}, items))
    loaded = build(Network(cut=False), strategy_ckpt_load_file=str(path))
    assert layouts(loaded) == layouts(build(Network(cut=True)))


def test_moving_statistics_are_cut_with_the_channels(tmp_path) -> None:
    path = tmp_path / "strategy.json"
    sharded = build(Network(cut=True), strategy_ckpt_save_file=str(path))
    names = [f"norm.{name}" for name in ("gamma", "beta", "moving_mean", "moving_variance")]
    assert {sharded.stored[name].canonical for name in names} == {sharded.stored["norm.gamma"].canonical}
    assert sharded.stored["norm.moving_mean"].local_shape(0) == (2,)
    # A converter must know which slice a file has; MindSpore leaves these out, whether cut or not.
    written = read_strategy(path).layouts
    assert written["norm.moving_mean"].layout((8,)) == BY_CHANNELS.layout((8,))
    assert {"norm.moving_mean", "norm.moving_variance"}.isdisjoint(
        read_strategy(build_uncut(tmp_path / "uncut.ckpt")).layouts
    )


def build_uncut(path):
    build(Network(cut=False), strategy_ckpt_save_file=str(path))
    return path


def test_training_and_inference_with_cut_statistics_are_those_of_one_rank() -> None:
    batches = np.random.default_rng(0).normal(size=(3, 16, 4, 6, 6)).astype(np.float32)

    def train(communicator):
        ms.reset_auto_parallel_context()
        ms.set_seed(1)
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        network = Network(cut=communicator.size > 1)
        model = ms.Model(network, optimizer=nn.Momentum(network.trainable_params(), 1e-3, 0.9))
        model.train_network.set_train()
        losses = [float(model.run_step([batch])) for batch in batches]
        mean, box = network.norm.moving_mean, network.norm.moving_mean.box
        if communicator.size > 1:
            assert box.shape == (2,)
        return (
            losses,
            (box.start[0], box.stop[0], np.array(mean.asnumpy())),
            float(model.predict(ms.Tensor(batches[0]))),
        )

    ((expected, (_, _, whole), predicted),) = run_world(1, train)
    for losses, (start, stop, part), found in run_world(8, train):
        np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(part, whole[start:stop], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found, predicted, rtol=1e-4, atol=1e-5)
