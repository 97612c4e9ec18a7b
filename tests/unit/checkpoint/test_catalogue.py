"""A folder holds the checkpoints that manifests name, in the order of their commits, and leftovers."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.catalogue import (
    CheckpointFiles,
    below,
    catalogue,
    commit_time,
    committed,
    file_size,
    find,
    manifest_of_shard,
    newest,
    remove,
    root_of,
    uncommitted,
)
from mpiparallel.checkpoint.catalogued import saved_in
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.checkpoint.shard_places import ShardPlaces
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
    (folder / "rank_1" / "a-2_1.manifest.json").write_text("{}")
    assert manifest_of_shard(folder / "rank_1" / "a-2_1.h5") == folder / "a-2_1.manifest.json"


def test_checkpoints_of_one_time_come_by_epoch_step_and_name(tmp_path: Path) -> None:
    for prefix, epoch, step in (("b", 1, 10), ("a", 1, 10), ("c", 1, 9), ("a", 2, 1)):
        run_world(2, save, tmp_path, prefix, epoch, step)
    for path in tmp_path.glob("*.manifest.json"):
        replace(Manifest.load(path), saved=5.0).write(tmp_path)
    order = ["c-1_9", "a-1_10", "b-1_10", "a-2_1"]
    assert [entry.name for entry in catalogue(tmp_path)] == order
    # Damaged ones come first, by name.
    for name in ("b-1_10", "a-2_1"):
        (tmp_path / f"{name}.manifest.json").write_text("{}")
    assert [entry.name for entry in catalogue(tmp_path)] == ["a-2_1", "b-1_10", "c-1_9", "a-1_10"]


def test_the_last_three_that_cannot_be_read_are_told_where_none_can(folder: Path) -> None:
    run_world(2, save, folder, "a", 3, 1)
    for path in folder.glob("*.manifest.json"):
        path.write_text("{}")
    with pytest.raises(CheckpointError) as caught:
        newest(folder)
    begin = f"{folder}: holds no checkpoint that was completed; name another folder; "
    assert str(caught.value).startswith(begin)
    assert str(caught.value).count("is no sound manifest") == 3
    with pytest.raises(CheckpointError, match=r'holds no checkpoint with prefix "c" that was completed; name another'):
        newest(folder, "c")


def test_a_manifest_that_was_read_before_is_not_read_again(folder: Path) -> None:
    known: dict[str, CheckpointFiles] = {}
    assert [one.name for one in committed(folder, None, known)] == ["a-1_2", "a-2_1", "b-1-1_1"]
    assert sorted(known) == ["a-1_2", "a-2_1", "b-1-1_1"]
    (folder / "a-2_1.manifest.json").write_text("{}")
    assert [one.name for one in committed(folder, "a", known)] == ["a-1_2", "a-2_1"]
    assert [one.name for one in committed(folder, "a", {})] == ["a-1_2"]
    (folder / "a-2_1.manifest.json").unlink()
    assert [one.name for one in committed(folder, "a", known)] == ["a-1_2"]


def test_files_of_a_checkpoint_are_its_shards_and_what_is_named_after_it(folder: Path) -> None:
    manifest = Manifest.load(folder / "a-1_2.manifest.json")
    beside = ["a-1_2.strategy.ckpt", "a-1_2x.ckpt", "strategy.ckpt", "a-1_2.d/s.ckpt"]
    files = CheckpointFiles.of(replace(manifest, files=dict.fromkeys(beside, "ab" * 16)))
    assert (files.name, files.prefix, files.saved) == ("a-1_2", "a", manifest.saved)
    assert files.companions == ("a-1_2.strategy.ckpt",)
    lengths = [(folder / f"rank_{rank}" / "a-1_2.h5").stat().st_size for rank in range(2)]
    assert files.shards == tuple((f"rank_{rank}/a-1_2.h5", length) for rank, length in enumerate(lengths))
    assert files.byte_count == sum(lengths)


def test_a_checkpoint_is_whole_with_all_of_its_files_and_lost_without_any(folder: Path) -> None:
    files = CheckpointFiles.of(Manifest.load(folder / "a-1_2.manifest.json"))
    first, second = (folder / f"rank_{rank}" / "a-1_2.h5" for rank in range(2))
    assert (files.is_whole(folder), files.is_lost(folder)) == (True, False)
    second.write_bytes(second.read_bytes()[:-1])
    assert (files.is_whole(folder), files.is_lost(folder)) == (False, False)
    second.unlink()
    assert (files.is_whole(folder), files.is_lost(folder)) == (False, False)
    assert (file_size(first), file_size(second)) == (first.stat().st_size, 0)
    first.unlink()
    assert (files.is_whole(folder), files.is_lost(folder)) == (False, True)


def test_a_commit_is_later_than_all_that_are_there(tmp_path: Path) -> None:
    before = time.time()
    assert before <= commit_time(tmp_path) <= time.time()
    later = before + 1000.0
    for name, seconds in (("a-1_1", later), ("a-1_2", 5.0)):
        (tmp_path / f"{name}.manifest.json").touch()
        os.utime(tmp_path / f"{name}.manifest.json", (seconds, seconds))
    assert later < commit_time(tmp_path) < later + 1.0


def test_a_hidden_file_is_no_manifest(folder: Path) -> None:
    (folder / ".partial-x.manifest.json").write_text("{}")
    (folder / "c-1_1.manifest.jso").write_text("{}")
    assert len(catalogue(folder)) == 3


def test_removed_are_shards_companions_and_shards_of_that_name_in_folders_of_ranks(folder: Path) -> None:
    manifest = Manifest.load(folder / "a-1_2.manifest.json")
    replace(manifest, files={"a-1_2.strategy.ckpt": "ab" * 16}).write(folder)
    for name in ("rank_7/a-1_2.h5", "own/a-1_2.h5", "other/a-1_2.h5", "a-1_2.strategy.ckpt", "rank_1/a-1_2.npz"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"")
    remove(folder, [CheckpointFiles.of(Manifest.load(folder / "a-1_2.manifest.json"))], ["own"])
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("a-1_2*"))
    assert left == ["other/a-1_2.h5", "rank_1/a-1_2.npz"]
    remove(folder, [])


def test_a_manifest_that_cannot_be_deleted_is_told_and_no_shard_goes(folder: Path) -> None:
    files = [CheckpointFiles.of(Manifest.load(folder / f"{name}.manifest.json")) for name in ("a-1_2", "a-2_1")]
    (folder / "a-2_1.manifest.json").unlink()
    (folder / "a-2_1.manifest.json").mkdir()
    with pytest.raises(CheckpointError, match=rf"^{folder}: checkpoint a-1_2, a-2_1 cannot be deleted \("):
        remove(folder, files)
    assert len(list(folder.rglob("*.h5"))) == 6


def save_in_own_folders(communicator: Communicator, folder: Path, step: int, names: tuple[str, ...]) -> None:
    arrays, layouts = {"w": np.full(1, step)}, {"w": Layout((2,), DeviceMatrix((2,)), ((0,),))}
    save_shards(folder, "a", 1, step, arrays, layouts, communicator, places=ShardPlaces(names))


@pytest.mark.parametrize(("depth", "is_found"), [(1, True), (4, True), (5, False)])
def test_the_manifest_of_a_shard_lies_up_to_four_folders_above_its_own(
    depth: int, is_found: bool, tmp_path: Path
) -> None:
    names = tuple("/".join([f"r{rank}", *"bcdefg"[: depth - 1]]) for rank in range(2))
    run_world(2, save_in_own_folders, tmp_path, 3, names)
    own = tmp_path / names[1]
    found = manifest_of_shard(own / "a-1_3.h5")
    assert found == (tmp_path / "a-1_3.manifest.json" if is_found else None)
    assert root_of(own) == (tmp_path if is_found else own)
    if is_found:
        assert find(own)[1].name == find(own / "a-1_3")[1].name == "a-1_3"
    assert (below(tmp_path, own), below(tmp_path, tmp_path)) == ((names[1],), ())


def test_shards_that_nothing_names_are_found_in_folders_that_manifests_name_too(tmp_path: Path) -> None:
    run_world(2, save_in_own_folders, tmp_path, 3, ("x/ckpt", "y/ckpt"))
    for name in ("x/ckpt/a-1_4.h5", "y/ckpt/.partial-1", "z/a-1_4.h5", "x/ckpt/a-1_4.npz", "x/ckpt/notes-1.h5"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert uncommitted(tmp_path) == [tmp_path / "x/ckpt/a-1_4.h5", tmp_path / "y/ckpt/.partial-1"]


def test_a_training_has_saved_what_shares_folders_with_its_own_directly_or_not(tmp_path: Path) -> None:
    for step, names in ((1, ("a", "b")), (2, ("b", "c")), (3, ("c", "d")), (4, ("e", "f"))):
        run_world(2, save_in_own_folders, tmp_path, step, names)
    entries = catalogue(tmp_path)
    assert [entry.name for entry in saved_in(["a"], entries)] == ["a-1_1", "a-1_2", "a-1_3"]
    assert [entry.name for entry in saved_in(["f"], entries)] == ["a-1_4"]
    assert saved_in(["g"], entries) == []
    # Where the files of a damaged one lie says whose it is.
    (tmp_path / "a-1_2.manifest.json").write_text("{}")
    found = saved_in(["a"], catalogue(tmp_path))
    assert [entry.name for entry in found] == ["a-1_2", "a-1_1", "a-1_3"]
