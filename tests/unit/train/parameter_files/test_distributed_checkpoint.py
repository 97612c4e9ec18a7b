"""Slices of one cut loaded into a network of another: MindSpore's own files, and the strategies that are inferred."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpiparallel import Model, Tensor, context, nn
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoints
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.parameter_files.distributed_checkpoint import load_distributed_checkpoint
from mpiparallel.train.serialization import load_checkpoint
from tests.unit.train import mindspore_nets as nets
from tests.unit.train.parameter_files.mindspore_checkpoint import read_checkpoint

GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore" / "e2e_8to4"
SOURCES = [next(GENUINE.glob(f"src_checkpoints/rank_{rank}/*.ckpt")) for rank in range(8)]
STRATEGY = GENUINE / "src_strategy.ckpt"
MP4 = (((1, 1), (1, 4)), ((1, 4),), ((1, 4), (4, 1)))
HALF = (((1, 1), (1, 2)), ((1, 2),), ((1, 2), (2, 1)))
X = np.zeros((16, 64), np.float32)


def whole():
    return read_checkpoint(next(GENUINE.glob("full/rank_0/*.ckpt")))


def train_network(strategies):
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = nets.MeanLoss(nets.TwoMatMul(strategies))
    return Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9))


def batches():
    return NumpySlicesDataset((X,), ["x"], shuffle=False).batch(16)


def test_one_device_loads_what_eight_have_saved_and_mindspore_has_merged() -> None:
    model = train_network(None)
    not_loaded, besides = load_distributed_checkpoint(model.train_network, SOURCES, None, STRATEGY)
    held = {one.name: one.asnumpy() for one in model.train_network.get_parameters()}
    wanted = whole()
    for name in wanted.keys() & held.keys():
        np.testing.assert_array_equal(held[name].reshape(wanted[name].shape), wanted[name], err_msg=name)
    assert {"net.w1", "moments.net.w1"} <= wanted.keys() & held.keys()
    assert not set(not_loaded) & wanted.keys()
    assert set(besides) == wanted.keys() - held.keys()


def test_four_devices_of_another_cut_load_the_slices_that_mindspore_makes_for_them() -> None:
    def on_rank(communicator):
        model = train_network(MP4)
        layouts = model.infer_train_layout(batches(), True, 100)
        load_distributed_checkpoint(model.train_network, SOURCES, layouts, STRATEGY)
        return layouts, {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}

    for rank, (layouts, held) in enumerate(run_world(4, on_rank)):
        wanted = read_checkpoint(next(GENUINE.glob(f"dst_checkpoints/rank_{rank}/*.ckpt")))
        for name in wanted.keys() & held.keys():
            np.testing.assert_array_equal(held[name].reshape(wanted[name].shape), wanted[name], err_msg=name)
            assert layouts[name][2] == list(held[name].shape)
        # As MindSpore tells it: four devices along the columns of w1 and the rows of w2.
        assert layouts["net.w1"] == ([4], [-1, 0], [64, 8], 0, True, "")
        assert layouts["net.w2"] == ([4], [0, -1], [8, 16], 0, True, "")


def test_layouts_tell_the_shards_of_the_optimizer_by_their_ranks() -> None:
    context.set_auto_parallel_context(
        device_num=8,
        global_rank=5,
        enable_parallel_optimizer=True,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    layouts = train_network((((2, 1), (1, 4)), ((2, 4),), ((2, 4), (4, 1)))).infer_train_layout(batches())
    assert layouts["net.w1"] == ([2, 4], [-1, 0], [32, 8], 0, True, "1-5")


def test_prediction_is_cut_without_an_optimizer_and_loaded() -> None:
    def on_rank(communicator):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        network = nets.TwoMatMul(MP4)
        network.w1.name, network.w2.name = "net.w1", "net.w2"
        model = Model(network)
        layouts = model.infer_predict_layout(Tensor(X))
        assert set(layouts) == {"net.w1", "net.w2"}
        not_loaded, _ = load_distributed_checkpoint(network, SOURCES, layouts, STRATEGY)
        assert not_loaded == []
        x = np.random.default_rng(3).normal(size=X.shape).astype(np.float32)
        return x, model.predict(Tensor(x)).asnumpy()

    x, found = run_world(4, on_rank)[0]
    wanted = whole()
    np.testing.assert_allclose(found, np.maximum(x @ wanted["net.w1"], 0) @ wanted["net.w2"], rtol=1e-4, atol=1e-5)


def test_the_strategy_file_of_inference_is_written_for_the_transform(tmp_path) -> None:
    path = tmp_path / "predict_strategy.ckpt"
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, device_num=4, global_rank=1)
    context.set_auto_parallel_context(strategy_ckpt_save_file=str(path))
    network = nets.TwoMatMul(MP4)
    network.w1.name, network.w2.name = "net.w1", "net.w2"
    layouts = Model(network).infer_predict_layout(Tensor(X))
    assert set(read_strategy(path).layouts) == set(layouts) == {"net.w1", "net.w2"}
    transform_checkpoints(SOURCES[0].parents[1], tmp_path / "out", "predict", STRATEGY, path, missing="omitted")
    for rank in range(4):
        held = load_checkpoint(tmp_path / "out" / f"rank_{rank}" / f"predict{rank}.ckpt")
        wanted = read_checkpoint(next(GENUINE.glob(f"dst_checkpoints/rank_{rank}/*.ckpt")))
        for name in layouts:
            np.testing.assert_array_equal(held[name].asnumpy(), wanted[name])


def test_shards_beside_their_manifest_need_no_strategy_file(tmp_path) -> None:
    def save(communicator):
        model = train_network(HALF)
        model.train(1, batches(), ModelCheckpoint("net", tmp_path, CheckpointConfig(0)))
        return {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}

    saved = run_world(4, save)
    context.reset_auto_parallel_context()
    model = train_network(None)
    files = [tmp_path / f"rank_{rank}" / "net-1_1.h5" for rank in range(4)]
    # Ranks 0 and 1 have the same.
    files[0].unlink()
    for given in (files, tmp_path, tmp_path / "net-1_1", str(tmp_path / "net-1_1.manifest.json")):
        model = train_network(None)
        assert load_distributed_checkpoint(model.train_network, given) == ([], [])
        weight = model.train_network.parameters_dict()["net.w1"].asnumpy()
        np.testing.assert_array_equal(weight, np.concatenate([saved[0]["net.w1"], saved[2]["net.w1"]], axis=1))
    # In another order they are not those of the ranks.
    with pytest.raises(ConfigurationError, match="how the 4 ranks of the training cut their parameters is not known"):
        load_distributed_checkpoint(train_network(None).train_network, files[::-1])


def test_one_device_predicts_with_the_moving_averages_of_rank_0(tmp_path) -> None:
    def save(communicator):
        context.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        network = nn.SequentialCell([nn.BatchNorm2d(2), nn.Flatten(), nn.Dense(8, 4)])
        model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
        random = np.random.default_rng(communicator.rank)
        data = random.normal(size=(4, 2, 2, 2)).astype(np.float32), random.normal(size=(4, 4)).astype(np.float32)
        data = NumpySlicesDataset(data, ["x", "y"], shuffle=False).batch(2)
        model.train(1, data, ModelCheckpoint("own", tmp_path, CheckpointConfig(0)))
        return {one.name: one.asnumpy().copy() for one in network.get_parameters()}

    first, second = run_world(2, save)
    context.reset_auto_parallel_context()
    network = nn.SequentialCell([nn.BatchNorm2d(2), nn.Flatten(), nn.Dense(8, 4)])
    assert load_distributed_checkpoint(network, tmp_path)[0] == []
    for one in network.get_parameters():
        np.testing.assert_array_equal(one.asnumpy(), first[one.name], err_msg=one.name)
    assert not np.array_equal(first["0.moving_mean"], second["0.moving_mean"])


def test_what_does_not_fit_is_refused_and_nothing_is_changed(tmp_path) -> None:
    model = train_network(None)
    before = {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}
    lost = [path if rank not in (0, 4) else tmp_path / "gone.ckpt" for rank, path in enumerate(SOURCES)]
    wrong = [
        ((None, None, STRATEGY), ConfigurationError, "checkpoint_filenames must be a list"),
        ((SOURCES, None, None), ConfigurationError, "give train_strategy_filename"),
        ((lost, None, STRATEGY), CheckpointError, 'tensor "moments.net.w1" .* is lost'),
        ((SOURCES, {"net.w1": ([4], [-1, 0], [64, 8], 0, True, "")}, STRATEGY), ConfigurationError, r"gives this rank"),
        (([*SOURCES, SOURCES[0]], None, STRATEGY), CheckpointError, "is of rank 8, but .* is one of 8 ranks"),
        (
            (SOURCES[:1], None, None),
            CheckpointError,
            r"net.w1': the files hold shape \(32, 8\), the network \(64, 32\)",
        ),
    ]
    for given, kind, message in wrong:
        with pytest.raises(kind, match=message):
            load_distributed_checkpoint(model.train_network, *given)
    for one in model.train_network.get_parameters():
        np.testing.assert_array_equal(one.asnumpy(), before[one.name], err_msg=one.name)


def test_what_layouts_say_of_parameters_that_the_network_lacks_is_passed_over() -> None:
    model = train_network(None)
    elsewhere = {"head.weight": ([1], [-1, -1], [9, 9], 0, True, "")}
    load_distributed_checkpoint(model.train_network, SOURCES, elsewhere, STRATEGY)
    held = {one.name: one.asnumpy() for one in model.train_network.get_parameters()}
    np.testing.assert_array_equal(held["net.w1"], whole()["net.w1"])
