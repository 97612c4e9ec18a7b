from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.catalogue import (
    CheckpointFiles,
    catalogue,
    find,
    manifest_of_shard,
    newest,
    remove,
    uncommitted,
)
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout


def save(communicator: Communicator, folder: Path, prefix: str, epoch: int, step: int) -> None:
    arrays, layouts = {"w": np.full(1, step)}, {"w": Layout((2,), DeviceMatrix((2,)), ((0,),))}
    save_shards(folder, prefix, epoch, step, arrays, layouts, communicator)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for prefix, epoch, step in (("a", 1, 2), ("a", 2, 1), ("b-1", 1, 1)):
        run_world(2, save, tmp_path, prefix, epoch, step)
    return tmp_path


def test_checkpoints_come_in_the_order_in_which_they_were_committed(folder: Path) -> None:
    assert [entry.name for entry in catalogue(folder)] == ["a-1_2", "a-2_1", "b-1-1_1"]
    assert [entry.name for entry in catalogue(folder, "a")] == ["a-1_2", "a-2_1"]
    assert newest(folder).name == "b-1-1_1"
    assert newest(folder, "a").name == "a-2_1"


def test_a_damaged_manifest_is_told_of_and_passed_over(folder: Path) -> None:
    (folder / "b-1-1_1.manifest.json").write_text("{}")
    entries = catalogue(folder)
    assert (entries[0].name, entries[0].manifest) == ("b-1-1_1", None)
    assert "is no sound manifest" in entries[0].problem
    assert newest(folder).name == "a-2_1"
    with pytest.raises(CheckpointError, match=r'no checkpoint with prefix "b-1" that was completed.*no sound manifest'):
        newest(folder, "b-1")


def test_a_folder_without_a_manifest_has_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "rank_0").mkdir()
    (tmp_path / "rank_0" / "a-1_1.h5").write_bytes(b"whole or not")
    with pytest.raises(CheckpointError, match=r"holds no checkpoint that was completed; name another folder$"):
        newest(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read as a folder"):
        newest(tmp_path / "missing")


def test_removal_leaves_the_others(folder: Path) -> None:
    remove(folder, [CheckpointFiles.of(Manifest.load(folder / "a-1_2.manifest.json"))])
    assert [entry.name for entry in catalogue(folder)] == ["a-2_1", "b-1-1_1"]
    found = sorted(path.name for path in folder.rglob("*.h5"))
    assert found == ["a-2_1.h5", "a-2_1.h5", "b-1-1_1.h5", "b-1-1_1.h5"]


def test_what_no_manifest_names_is_found(folder: Path) -> None:
    assert uncommitted(folder) == []
    torn, partial = folder / "rank_1" / "a-3_1.h5", folder / "rank_0" / ".partial-x"
    for path in (torn, partial, folder / "rank_0" / "notes.txt"):
        path.write_bytes(b"")
    assert uncommitted(folder) == [partial, torn]
    (folder / "a-1_2.manifest.json").write_text("damaged, so its shards may still be wanted")
    assert uncommitted(folder) == [partial, torn]
    (folder / "a-1_2.manifest.json").unlink()
    torn_too = [folder / f"rank_{rank}" / "a-1_2.h5" for rank in range(2)]
    assert uncommitted(folder) == [partial, *torn_too, torn]


def test_a_checkpoint_is_found_by_its_folder_its_name_or_its_manifest(folder: Path) -> None:
    assert find(folder)[1].name == "b-1-1_1"
    for named in (folder / "a-2_1", folder / "a-2_1.manifest.json"):
        assert find(named)[0] == folder
        assert find(named)[1].name == "a-2_1"
    with pytest.raises(CheckpointError, match="is neither a folder of checkpoints, nor one in a folder"):
        find(folder / "a-9_9")


def test_the_order_of_commits_survives_a_clock_that_is_set_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1e6)
    for step in (9, 8):
        run_world(2, save, folder, "a", 1, step)
    assert [entry.name for entry in catalogue(folder)] == ["a-1_2", "a-2_1", "b-1-1_1", "a-1_9", "a-1_8"]


def test_a_damaged_manifest_is_that_of_the_shards_in_folders_of_ranks_beside_it_and_of_no_others(folder: Path) -> None:
    (folder / "b-1-1_1.manifest.json").write_text("{}")
    assert manifest_of_shard(folder / "rank_1" / "b-1-1_1.h5") == folder / "b-1-1_1.manifest.json"
    assert manifest_of_shard(folder / "work" / "rank_1" / "b-1-1_1.h5") is None
    assert manifest_of_shard(folder / "work" / "rank_1" / "a-2_1.h5") is None
