"""Checkpoints of a training: what is on disk, what is kept, and going on from it."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from mpiparallel import Model, context, load_checkpoint, load_param_into_net, nn
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint

RANKS = 4


def make_model(cut):
    context.set_seed(3)
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=True,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    layer = nn.Dense(6, 4)
    layer.matmul.shard(cut)
    return Model(layer, nn.MSELoss(), nn.Adam(layer.trainable_params(), 0.05))


def make_dataset():
    random = np.random.default_rng(1)
    data = random.normal(size=(24, 6)).astype(np.float32), random.normal(size=(24, 4)).astype(np.float32)
    return NumpySlicesDataset(data, ["x", "y"], shuffle=True).batch(8)


CUT = ((2, 1), (2, 1))


def train_and_save(communicator, folder, epochs, config):
    model = make_model(CUT)
    saver = ModelCheckpoint("dense", str(folder), config)
    model.train(epochs, make_dataset(), saver, dataset_sink_mode=False)
    return saver.last_checkpoint, {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}


def go_on(communicator, files, epochs):
    model = make_model(CUT)
    model.build(train_dataset=make_dataset())
    not_loaded = load_param_into_net(model.train_network, load_checkpoint(files[communicator.rank]))
    model.step = 6
    model.train(epochs, make_dataset(), dataset_sink_mode=False)
    return not_loaded, {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}


def test_a_training_loaded_from_its_shards_goes_on_bit_for_bit(tmp_path) -> None:
    whole = run_world(RANKS, train_and_save, tmp_path / "whole", 4, CheckpointConfig(0))
    halves = run_world(RANKS, train_and_save, tmp_path / "half", 2, CheckpointConfig(0))
    for (not_loaded, found), (_, wanted) in zip(
        run_world(RANKS, go_on, [path for path, _ in halves], 4), whole, strict=True
    ):
        assert not_loaded == ([], [])
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_each_rank_has_its_slices_in_a_file_that_h5py_reads(tmp_path) -> None:
    for rank, (path, held) in enumerate(run_world(RANKS, train_and_save, tmp_path, 1, CheckpointConfig(0))):
        assert path == tmp_path / f"rank_{rank}" / "dense-1_3.h5"
        with h5py.File(path) as file:
            assert set(file) == set(held)
            for name, value in held.items():
                np.testing.assert_array_equal(file[name][()], value)
            assert file["weight"].shape == (1, 6)
    manifest = Manifest.load(tmp_path)
    assert (manifest.epoch, manifest.step, manifest.rank_count) == (1, 3, RANKS)


def test_the_newest_checkpoints_are_kept_and_a_second_run_gets_a_prefix_of_its_own(tmp_path) -> None:
    config = CheckpointConfig(save_checkpoint_steps=1, keep_checkpoint_max=2)
    for _ in range(2):
        run_world(RANKS, train_and_save, tmp_path, 2, config)
    names = sorted(path.name for path in (Path(tmp_path) / "rank_2").glob("*.h5"))
    assert names == ["dense-2_2.h5", "dense-2_3.h5", "dense_1-2_2.h5", "dense_1-2_3.h5"]


def test_slices_of_another_cut_are_refused_before_anything_changes(tmp_path) -> None:
    saved = run_world(RANKS, train_and_save, tmp_path, 1, CheckpointConfig(0))

    def load(communicator):
        model = make_model(((1, 2), (1, 2)))
        model.build(train_dataset=make_dataset())
        before = {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}
        message = r"weight': the file holds shape \(1, 6\), this rank \(2, 3\) of \(4, 6\)"
        with pytest.raises(CheckpointError, match=message):
            load_param_into_net(model.train_network, load_checkpoint(saved[communicator.rank][0]))
        for one in model.train_network.get_parameters():
            np.testing.assert_array_equal(one.asnumpy(), before[one.name])

    run_world(RANKS, load)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="integrated_save=True is not implemented yet"):
        CheckpointConfig(integrated_save=True)
    with pytest.raises(ConfigurationError, match="at least 0"):
        CheckpointConfig(save_checkpoint_steps=-1)


def test_what_is_each_ranks_own_is_saved_by_each_rank(tmp_path) -> None:
    def on_rank(communicator):
        context.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        network = nn.SequentialCell([nn.BatchNorm2d(2), nn.Flatten(), nn.Dense(8, 4)])
        model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9))
        random = np.random.default_rng(communicator.rank)
        data = random.normal(size=(4, 2, 2, 2)).astype(np.float32), random.normal(size=(4, 4)).astype(np.float32)
        saver = ModelCheckpoint("own", str(tmp_path), CheckpointConfig(0))
        model.train(1, NumpySlicesDataset(data, ["x", "y"], shuffle=False).batch(2), saver)
        held = {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}
        loaded = load_checkpoint(saver.last_checkpoint)
        assert load_param_into_net(model.train_network, loaded) == ([], [])
        return held, {name: one.asnumpy() for name, one in loaded.items()}

    found = run_world(2, on_rank)
    for held, loaded in found:
        for name, value in held.items():
            np.testing.assert_array_equal(loaded[name], value, err_msg=name)
    (moving,) = {name for name in found[0][0] if "moving_mean" in name}
    assert not np.array_equal(found[0][0][moving], found[1][0][moving])
    assert Manifest.load(tmp_path).tensors[moving].layout.global_shape == (4,)
