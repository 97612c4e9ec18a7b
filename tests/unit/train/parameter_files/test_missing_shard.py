"""A shard that is asked for and is not there: who holds the same, or which files there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Model, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.parameter_files.missing_shard import refuse_missing_shard


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a checkpoint of four ranks, of which each two hold the same half of the rows."""

    def save(communicator: Any) -> None:
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        network = nn.Dense(4, 2, has_bias=False)
        network.matmul.shard(((1, 1), (2, 1)))
        model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
        rows = np.ones((2, 4), np.float32), np.ones((2, 2), np.float32)
        data = NumpySlicesDataset(rows, ["x", "y"], shuffle=False).batch(2)
        model.train(1, data, ModelCheckpoint("net", tmp_path, CheckpointConfig(1)))

    run_world(4, save)
    return tmp_path


def told(path: Path) -> str:
    """Return what is said of a path, "" for nothing."""
    try:
        refuse_missing_shard(path)
    except CheckpointError as error:
        return str(error)
    return ""


def test_of_a_missing_shard_who_holds_the_same_is_told_as_long_as_anybody_does(folder: Path) -> None:
    shards = [folder / f"rank_{rank}" / "net-1_1.h5" for rank in range(4)]
    assert [told(shard) for shard in shards] == [""] * 4
    shards[2].unlink()
    missing = f"{shards[2]}: is missing, the shard of rank 2; "
    copy = "rank 3 holds the same slices: copy its file, or have it rebuilt by: mpiparallel ckpt recover "
    assert told(shards[2]) == f"{missing}{copy}{folder}/net-1_1"
    # Whatever format it is asked for in.
    assert told(shards[2].with_suffix(".ckpt")) == told(shards[2])
    shards[3].unlink()
    nobody = "no other rank holds all the same slices; see what there is by: mpiparallel ckpt verify "
    assert told(shards[2]) == f"{missing}{nobody}{folder}"
    assert [told(shard) for shard in shards[:2]] == [""] * 2


def test_of_another_name_three_files_like_it_are_told_and_of_another_kind_nothing(tmp_path: Path) -> None:
    for step in range(1, 6):
        (tmp_path / f"net-1_{step}.ckpt").touch()
    (tmp_path / "net-1_6.txt").touch()
    said = told(tmp_path / "net-1_6.ckpt")
    assert said.startswith(f"{tmp_path}/net-1_6.ckpt: is not there; name one that is, such as net-1_")
    named = said.split("such as ")[1].split(", ")
    assert len(set(named)) == 3
    assert all((tmp_path / name).exists() and name.endswith(".ckpt") for name in named)
    assert told(tmp_path / "net-1_7.txt") == ""
    (tmp_path / "empty").mkdir()
    assert told(tmp_path / "empty" / "net-1_6.ckpt") == ""
