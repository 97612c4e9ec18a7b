"""Checkpoints that a training saves: what is on disk, when, how many, and under which name."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import xxhash

from mpiparallel import Model, Parameter, context, load_checkpoint, load_param_into_net, nn
from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.communication import get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint
from tests.conformance.trainings.saved_training import (
    RANKS,
    At,
    committed,
    held_by,
    make_dataset,
    make_model,
    shards,
    train_and_save,
)

OWN = {"parallel_mode": "data_parallel", "gradients_mean": True}


def go_on(communicator, files, epochs):
    model = make_model()
    model.build(train_dataset=make_dataset())
    not_loaded = load_param_into_net(model.train_network, load_checkpoint(files[communicator.rank]))
    model.step = 6
    model.train(epochs, make_dataset(), dataset_sink_mode=False)
    return not_loaded, held_by(model)


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
    saved = run_world(RANKS, train_and_save, tmp_path, 1, CheckpointConfig(0))
    for rank, (path, held) in enumerate(saved):
        assert path == tmp_path / f"rank_{rank}" / "dense-1_3.h5"
        floats = np.concatenate([held[name].reshape(-1) for name in sorted(held) if held[name].dtype == np.float32])
        with h5py.File(path) as file:
            np.testing.assert_array_equal(np.sort(file["%fused_f4"][()]), np.sort(floats))
    manifest = Manifest.load(tmp_path / "dense-1_3.manifest.json")
    assert (manifest.epoch, manifest.step, manifest.rank_count) == (1, 3, RANKS)
    assert manifest.training["step"] == 3


def test_the_newest_checkpoints_are_kept_whole_and_a_second_run_gets_a_prefix_of_its_own(tmp_path, remarks) -> None:
    config = CheckpointConfig(save_checkpoint_steps=1, keep_checkpoint_max=2)
    run_world(RANKS, train_and_save, tmp_path, 2, config)
    assert remarks() == []
    run_world(RANKS, train_and_save, tmp_path, 2, config)
    assert [f"{tmp_path} has checkpoints 'dense'" in line and "called dense_1-" in line for line in remarks()] == [True]
    names = ["dense-2_2", "dense-2_3", "dense_1-2_2", "dense_1-2_3"]
    assert committed(tmp_path) == names
    assert all(shards(tmp_path, rank) == [f"{name}.h5" for name in names] for rank in range(RANKS))


def resumed(communicator, folder) -> None:
    assert make_model().resume(folder, make_dataset()) is not None


def test_a_save_reads_no_manifest_and_a_resume_reads_one_once_on_each_rank(tmp_path, monkeypatch) -> None:
    read, load = [], Manifest.load
    monkeypatch.setattr(Manifest, "load", lambda path: read.append(path) or load(path))
    run_world(RANKS, train_and_save, tmp_path, 2, CheckpointConfig(0, keep_checkpoint_max=1))
    assert read == []
    run_world(RANKS, resumed, tmp_path)
    assert len(read) == RANKS


def test_a_checkpoint_that_lacks_a_file_does_not_push_out_one_that_can_be_loaded(tmp_path) -> None:
    lose = At(2, lambda: (tmp_path / "rank_1" / "dense-1_2.h5").unlink(missing_ok=True))
    run_world(2, train_and_save, tmp_path, 1, CheckpointConfig(1, keep_checkpoint_max=2), lose)
    assert committed(tmp_path) == ["dense-1_1", "dense-1_2", "dense-1_3"]


class Clock(Callback):
    """Tells a time that 40 seconds pass in with each step."""

    def __init__(self):
        self.now = 1e9

    def step_end(self, run_context):
        self.now += 40


def test_of_old_checkpoints_one_is_kept_for_so_many_minutes_and_the_newest(tmp_path, monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.time", lambda: clock.now)
    run_world(1, train_and_save, tmp_path, 3, CheckpointConfig(1, keep_checkpoint_per_n_minutes=2), clock)
    # Saved after 0, 40, ... 320 s: those after 0, 120 and 240 are 2 minutes apart, and 320 is the newest.
    assert [entry.manifest.saved - 1e9 for entry in catalogue(tmp_path)] == [0, 120, 240, 320]


def test_a_folder_named_after_the_rank_is_that_of_the_tutorial(tmp_path) -> None:
    def on_rank(communicator):
        return train_and_save(communicator, tmp_path / f"rank_{get_rank()}", 1, CheckpointConfig(0))[0]

    assert run_world(RANKS, on_rank) == [tmp_path / f"rank_{rank}" / "dense-1_3.h5" for rank in range(RANKS)]
    assert committed(tmp_path) == ["dense-1_3"]


def test_with_less_redundancy_each_slice_is_written_once_and_ranks_share_on_loading(tmp_path) -> None:
    def on_rank(communicator):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        layer = nn.Dense(6, 4)
        model = Model(layer, nn.MSELoss(), nn.Adam(layer.trainable_params(), 0.05))
        saver = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(0, remove_redundancy=True))
        model.train(1, make_dataset(), saver)
        wanted = held_by(model)
        loaded = (
            load_checkpoint(saver.last_checkpoint, remove_redundancy=True) if saver.last_checkpoint.exists() else {}
        )
        for one in model.train_network.get_parameters():
            one.set_data(np.zeros(one.shape, one.dtype))
        with pytest.raises(
            CheckpointError, match="for other ranks have written them; load it with remove_redundancy=True"
        ):
            load_checkpoint(tmp_path / "rank_0" / saver.last_checkpoint.name)
        missing = load_param_into_net(model.train_network, loaded, remove_redundancy=True)
        for name, value in held_by(model).items():
            np.testing.assert_array_equal(value, wanted[name], err_msg=name)
        return missing, set(loaded), set(wanted)

    results = run_world(2, on_rank)
    assert [missing for missing, *_ in results] == [([], [])] * 2
    (_, first, wanted), (_, second, _) = results
    assert first | second == wanted
    assert not first & second


def test_an_integrated_checkpoint_is_one_file_of_whole_tensors_that_one_device_loads(tmp_path) -> None:
    saved = run_world(RANKS, train_and_save, tmp_path, 1, CheckpointConfig(0, integrated_save=True))
    assert {path for path, _ in saved} == {tmp_path / "rank_0" / "dense-1_3.h5"}
    assert [path.name for path in tmp_path.rglob("*.h5")] == ["dense-1_3.h5"]
    loaded = load_checkpoint(tmp_path / "rank_0" / "dense-1_3.h5")
    # Ranks 0 and 2 share the first half of the rows, 1 and 3 the second; each keeps a shard of it.
    rows = np.concatenate([saved[rank][1]["weight"] for rank in (0, 2, 1, 3)])
    np.testing.assert_array_equal(loaded["weight"].asnumpy(), rows)
    assert loaded["moment1.weight"].shape == (4, 6)

    def resume(communicator):
        model = make_model()
        found = model.resume(tmp_path, make_dataset())
        return found.step, held_by(model)

    for (step, held), (_, wanted) in zip(run_world(RANKS, resume), saved, strict=True):
        assert step == 3
        for name, value in wanted.items():
            np.testing.assert_array_equal(held[name], value, err_msg=name)


def test_information_is_saved_beside_the_parameters(tmp_path) -> None:
    given = {"lr": 0.5, "flag": True, "note": "warm", "table": Parameter(np.arange(3.0), "table")}
    config = CheckpointConfig(2, append_info=["epoch_num", "step_num", given])
    saved = run_world(2, train_and_save, tmp_path, 2, config)
    loaded = load_checkpoint(saved[1][0])
    assert (int(loaded["epoch_num"].asnumpy()), int(loaded["step_num"].asnumpy())) == (2, 6)
    assert (float(loaded["lr"].asnumpy()), bool(loaded["flag"].asnumpy())) == (0.5, True)
    assert loaded["table"].asnumpy().tolist() == [0.0, 1.0, 2.0]
    assert Manifest.load(tmp_path / "dense-2_3.manifest.json").training["append_info"] == {"note": "warm"}

    def resume(communicator):
        return make_model().resume(tmp_path, make_dataset()).step

    assert run_world(2, resume) == [6, 6]


def test_only_a_part_of_the_network_is_saved_where_one_is_named(tmp_path) -> None:
    def on_rank(communicator):
        model = make_model()
        config = CheckpointConfig(0, saved_network=model.predict_network)
        saver = ModelCheckpoint("part", str(tmp_path), config)
        model.train(1, make_dataset(), saver)
        return set(load_checkpoint(saver.last_checkpoint))

    assert run_world(2, on_rank) == [{"weight", "bias"}] * 2


def test_the_strategy_file_of_a_checkpoint_stays_its_own(tmp_path) -> None:
    file = tmp_path / "strategy.json"

    def on_rank(communicator, cut):
        model = make_model(cut)
        if communicator.rank == 0:
            context.set_auto_parallel_context(strategy_ckpt_save_file=str(file))
        config = CheckpointConfig(1, keep_checkpoint_max=2)
        model.train(1, make_dataset(), ModelCheckpoint("net", tmp_path, config), dataset_sink_mode=False)

    run_world(2, on_rank, ((1, 2), (1, 2)))
    first = file.read_bytes()
    run_world(2, on_rank, ((2, 1), (1, 1)))
    assert file.read_bytes() != first
    copies = {path.name: path.read_bytes() for path in tmp_path.glob("*.strategy.json")}
    wanted = {"net-1_2": first, "net-1_3": first, "net_1-1_2": file.read_bytes(), "net_1-1_3": file.read_bytes()}
    assert copies == {f"{name}.strategy.json": content for name, content in wanted.items()}
    for entry in catalogue(tmp_path):
        digest = xxhash.xxh3_128_hexdigest(wanted[entry.name])
        assert entry.manifest.files == {f"{entry.name}.strategy.json": digest}


WRONG = [
    ({"save_checkpoint_steps": -1}, "save_checkpoint_steps -1 must be a number of at least 0"),
    ({"keep_checkpoint_max": "5"}, "keep_checkpoint_max '5' must be a number"),
    ({"async_save": "process"}, "async_save 'process' must be True or False"),
    ({"enc_key": b"secret"}, "files are not encrypted"),
    ({"exception_save": True}, "exception_save=True cannot be"),
    ({"format": "npz"}, "format 'npz' is not one of h5, ckpt, safetensors"),
    ({"on_error": "ignore"}, "on_error 'ignore' is not one of 'raise', 'warn'"),
    ({"append_info": ["loss"]}, "append_info has 'loss'"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_wrong_settings_are_refused(given, message) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CheckpointConfig(**given)


def test_names_of_one_of_the_tutorials_are_taken() -> None:
    config = CheckpointConfig(save_ckpt_steps=7, keep_ckpt_max=4, integrated_save=False)
    assert (config.save_checkpoint_steps, config.keep_checkpoint_max) == (7, 4)
    with pytest.raises(ConfigurationError, match="append_info: 'spec' is a list"):
        ModelCheckpoint("net", config=CheckpointConfig(append_info=[{"spec": [1]}]))
    with pytest.raises(CheckpointError, match="cannot begin the name of a checkpoint"):
        ModelCheckpoint("../net")


def test_what_is_each_ranks_own_is_saved_by_each_rank(tmp_path) -> None:
    def on_rank(communicator):
        context.set_auto_parallel_context(**OWN)
        network = nn.SequentialCell([nn.BatchNorm2d(2), nn.Flatten(), nn.Dense(8, 4)])
        model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9))
        random = np.random.default_rng(communicator.rank)
        data = random.normal(size=(4, 2, 2, 2)).astype(np.float32), random.normal(size=(4, 4)).astype(np.float32)
        saver = ModelCheckpoint("own", str(tmp_path), CheckpointConfig(0))
        model.train(1, NumpySlicesDataset(data, ["x", "y"], shuffle=False).batch(2), saver)
        held = held_by(model)
        loaded = load_checkpoint(saver.last_checkpoint)
        assert load_param_into_net(model.train_network, loaded) == ([], [])
        return held, {name: one.asnumpy() for name, one in loaded.items()}

    found = run_world(2, on_rank)
    for held, loaded in found:
        for name, value in held.items():
            np.testing.assert_array_equal(loaded[name], value, err_msg=name)
    (moving,) = {name for name in found[0][0] if "moving_mean" in name}
    assert not np.array_equal(found[0][0][moving], found[1][0][moving])
    assert Manifest.load(tmp_path / "own-1_2.manifest.json").tensors[moving].layout.global_shape == (4,)


def test_two_that_would_save_under_the_same_names_are_refused(tmp_path) -> None:
    def on_rank(communicator):
        others = [ModelCheckpoint("dense", tmp_path, CheckpointConfig(2, async_save=True))]
        with pytest.raises(ConfigurationError, match=r"two of them save in .* under the prefix 'dense'; give one of"):
            train_and_save(communicator, tmp_path, 1, CheckpointConfig(1), *others)

    run_world(2, on_rank)
    run_world(1, train_and_save, tmp_path, 1, CheckpointConfig(0), ModelCheckpoint("other", tmp_path))
    assert committed(tmp_path) == ["dense-1_3", "other-1_1", "other-1_2", "other-1_3"]


def test_files_of_others_that_are_named_alike_stay_when_a_checkpoint_is_deleted(tmp_path) -> None:
    exported = tmp_path / "dense-1_1.safetensors"
    run_world(2, train_and_save, tmp_path, 1, CheckpointConfig(1, keep_checkpoint_max=1), At(1, exported.touch))
    assert committed(tmp_path) == ["dense-1_3"]
    assert exported.exists()


def test_a_number_is_taken_that_no_rank_finds_anything_of(tmp_path) -> None:
    for name in ("rank_0/dense-1_1.h5", "rank_1/dense_1-1_1.h5"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    run_world(2, train_and_save, tmp_path, 1, CheckpointConfig(0))
    assert committed(tmp_path) == ["dense_2-1_3"]


def test_what_cannot_be_deleted_does_not_make_a_saved_checkpoint_a_failed_one(tmp_path, monkeypatch, capsys) -> None:
    def busy(path):
        raise OSError(16, "Device or resource busy", str(path))

    monkeypatch.setattr("mpiparallel.checkpoint.catalogue.sync_folder", busy)
    run_world(2, train_and_save, tmp_path, 1, CheckpointConfig(1, keep_checkpoint_max=2, on_error="warn"))
    said = capsys.readouterr().out
    assert f"{tmp_path / 'dense-1_3.manifest.json'} is saved, but older ones cannot be deleted: rank 0: " in said
    assert "no checkpoint" not in said


def test_a_rank_without_the_callback_of_the_others_is_told_at_once(tmp_path) -> None:
    def on_rank(communicator):
        savers = [ModelCheckpoint("dense", tmp_path)] if communicator.rank == 0 else []
        with pytest.raises(ConfigurationError, match="rank 0 has callbacks ModelCheckpoint, rank 1 none, of those"):
            make_model().train(1, make_dataset(), savers, dataset_sink_mode=False)

    run_world(2, on_rank)


def test_the_name_of_the_last_file_is_a_text_as_mindspores(tmp_path) -> None:
    def on_rank(communicator):
        saver = ModelCheckpoint("dense", tmp_path, CheckpointConfig(0))
        before = saver.latest_ckpt_file_name
        make_model().train(1, make_dataset(), saver, dataset_sink_mode=False)
        return before, saver.latest_ckpt_file_name

    assert run_world(1, on_rank) == [("", str(tmp_path / "rank_0" / "dense-1_3.h5"))]


def test_a_checkpoint_is_saved_whenever_so_many_seconds_have_passed(tmp_path, monkeypatch) -> None:
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("mpiparallel.train.callback.checkpoint.time", clock)

    class Passing(Callback):
        def step_begin(self, run_context):
            clock.now += 10.0

    config = CheckpointConfig(save_checkpoint_seconds=20, keep_checkpoint_max=9)
    run_world(1, train_and_save, tmp_path, 2, config, Passing())
    # Three steps an epoch.
    assert committed(tmp_path) == ["dense-1_2", "dense-2_1", "dense-2_3"]


def test_ranks_that_train_networks_of_their_own_do_not_save_one_checkpoint(tmp_path) -> None:
    def on_rank(communicator):
        network = nn.Dense(6, 4)
        model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
        words = r"2 ranks train networks of 1 devices \(parallel_mode 'stand_alone'\); set parallel_mode so that they"
        with pytest.raises(ConfigurationError, match=words):
            model.train(1, make_dataset(), ModelCheckpoint("dense", tmp_path), dataset_sink_mode=False)

    run_world(2, on_rank)
    assert committed(tmp_path) == []


def test_what_is_appended_under_the_name_of_a_parameter_is_refused(tmp_path) -> None:
    def on_rank(communicator):
        config = CheckpointConfig(0, append_info=[{"weight": 3}])
        with pytest.raises(ConfigurationError, match="'weight' is the name of a parameter"):
            train_and_save(communicator, tmp_path, 1, config)

    run_world(1, on_rank)
    assert committed(tmp_path) == []


def test_older_checkpoints_that_cannot_be_deleted_end_the_training_or_are_said(tmp_path, capsys, monkeypatch) -> None:
    unlink = Path.unlink

    def refusing(path, *arguments, **named):
        if path.name == "dense-1_1.manifest.json":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        unlink(path, *arguments, **named)

    monkeypatch.setattr(Path, "unlink", refusing)

    def on_rank(communicator, folder, on_error):
        config = CheckpointConfig(1, keep_checkpoint_max=1, on_error=on_error)
        return train_and_save(communicator, folder, 1, config)

    with pytest.raises(CheckpointError, match=r"checkpoint dense-1_1 cannot be deleted \(.*Permission denied"):
        run_world(1, on_rank, tmp_path / "raise", "raise")
    assert committed(tmp_path / "raise") == ["dense-1_1", "dense-1_2"]
    run_world(1, on_rank, tmp_path / "warn", "warn")
    assert "dense-1_3" in committed(tmp_path / "warn")
    words = "dense-1_2.manifest.json is saved, but older ones cannot be deleted: "
    assert words in capsys.readouterr().out
