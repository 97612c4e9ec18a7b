"""When a checkpoint is saved unless told otherwise, and what a configuration may not say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Model, load_checkpoint, nn
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.callback.checkpoint_config import check_protection


def test_each_step_is_saved_unless_told_and_five_checkpoints_are_kept_as_in_mindspore() -> None:
    plain = CheckpointConfig()
    assert (plain.save_checkpoint_steps, plain.save_checkpoint_seconds) == (1, 0)
    assert (plain.keep_checkpoint_max, plain.keep_checkpoint_per_n_minutes) == (5, 0)
    assert (plain.integrated_save, plain.async_save, plain.exception_save, plain.remove_redundancy) == (False,) * 4
    assert (plain.format, plain.on_error, plain.saved_network, plain.append_info) == ("h5", "raise", None, None)


@pytest.mark.parametrize(
    "name",
    ["save_checkpoint_steps", "save_checkpoint_seconds", "keep_checkpoint_max", "keep_checkpoint_per_n_minutes"],
)
def test_numbers_are_at_least_0_and_no_truth_values(name: str) -> None:
    for value in (0, 3, 0.5):
        assert getattr(CheckpointConfig(**{name: value}), name) == value
    for value in (-1, -0.5, True, "3", None):
        with pytest.raises(ConfigurationError) as caught:
            CheckpointConfig(**{name: value})
        assert str(caught.value) == f"CheckpointConfig: {name} {value!r} must be a number of at least 0"


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ({"async_save": "thread"}, True),
        ({"async_save": True}, True),
        ({"async_save": "process"}, False),
        ({"append_info": ["epoch_num", "step_num", {"note": "warm"}]}, True),
        ({"append_info": []}, True),
        ({"append_info": [{"note": "warm"}, 3]}, False),
        ({"append_info": ["epoch_num", "loss"]}, False),
        ({"format": "ckpt"}, True),
        ({"format": "safetensors"}, True),
        ({"on_error": "warn"}, True),
        ({"exception_save": True}, False),
        ({"enc_key": b"key"}, False),
    ],
)
def test_what_can_be_is_taken_and_all_else_refused(given: dict[str, Any], is_taken: bool) -> None:
    if is_taken:
        assert vars(CheckpointConfig(**given)).items() >= given.items()
        return
    with pytest.raises(ConfigurationError, match=r"^CheckpointConfig: "):
        CheckpointConfig(**given)


def test_a_checksum_and_a_mode_that_change_nothing_are_told_unless_they_are_the_default(
    remarks: Callable[[], list[str]],
) -> None:
    check_protection("save", None, False, enc_mode="AES-GCM")
    assert remarks() == []
    check_protection("save", None, True, enc_mode="SM4-CBC")
    assert ["no effect" in line for line in remarks()] == [True, True]


def saved(communicator: Any, folder: Path, config: CheckpointConfig) -> ModelCheckpoint:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = nn.Dense(4, 2, has_bias=False)
    network.matmul.shard(((1, 1), (2, 1)))
    model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
    rows = np.ones((4, 4), np.float32), np.ones((4, 2), np.float32)
    saver = ModelCheckpoint("net", folder, config)
    model.train(1, NumpySlicesDataset(rows, ["x", "y"], shuffle=False).batch(2), saver)
    return saver


@pytest.mark.parametrize(("integrated", "holders"), [(True, [0]), (False, [0, 1])])
def test_what_is_appended_is_said_to_be_in_the_files_that_have_it(
    integrated: bool, holders: list[int], tmp_path: Path
) -> None:
    config = CheckpointConfig(2, integrated_save=integrated, append_info=["step_num", {"rate": 0.5, "note": "warm"}])
    for saver in run_world(2, saved, tmp_path, config):
        assert saver.last_manifest is not None
        manifest = Manifest.load(saver.last_manifest)
        assert list(manifest.tensors["step_num"].layout.devices.members) == holders
        assert saver.last_checkpoint is not None
        loaded = load_checkpoint(saver.last_checkpoint)
        assert (int(loaded["step_num"].asnumpy()), float(loaded["rate"].asnumpy())) == (2, 0.5)
        assert "note" not in loaded
        assert loaded["weight"].shape == ((2, 4) if integrated else (1, 4))
        assert manifest.training["append_info"] == {"note": "warm"}


@pytest.mark.parametrize(("steps", "due"), [(0, []), (1, [1, 2, 3, 4]), (3, [3]), (4, [4])])
def test_a_checkpoint_comes_once_so_many_steps_have_gone_by_and_one_at_the_end(
    steps: int, due: list[int], tmp_path: Path
) -> None:
    network = nn.Dense(1, 1)
    model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
    rows = np.ones((4, 1), np.float32), np.ones((4, 1), np.float32)
    data = NumpySlicesDataset(rows, ["x", "y"], shuffle=False).batch(1)
    model.train(1, data, ModelCheckpoint("net", tmp_path, CheckpointConfig(steps)), dataset_sink_mode=False)
    found = sorted(path.name for path in tmp_path.glob("*.manifest.json"))
    assert found == [f"net-1_{step}.manifest.json" for step in sorted({*due, 4})]
