from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.catalogue import CheckpointFiles, catalogue
from mpiparallel.checkpoint.maintenance import pruning
from mpiparallel.checkpoint.maintenance.pruning import beyond, prune, too_close
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import contents


def save(folder: Path, step: int, prefix: str = "net") -> None:
    def save_rank(communicator: Communicator) -> None:
        arrays, layouts = {"w": np.full(1, step)}, {"w": Layout((2,), DeviceMatrix((2,)), ((0,),))}
        save_shards(folder, prefix, 1, step, arrays, layouts, communicator)

    run_world(2, save_rank)


def names(folder: Path) -> list[str]:
    return [entry.name for entry in catalogue(folder)]


def leave(path: Path, age: float) -> Path:
    path.write_bytes(b"left behind")
    os.utime(path, (time.time() - age,) * 2)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for step in (1, 2, 3):
        save(tmp_path, step)
    save(tmp_path, 9, "other")
    return tmp_path


def test_the_newest_of_each_prefix_stay_and_so_do_leftovers_unless_they_are_asked_for(folder: Path) -> None:
    left = leave(folder / "rank_0" / ".partial-a", 5000)
    done = prune(folder, 2)
    assert (done.removed, done.cleared, done.spared) == (("net-1_1",), (), ())
    assert left.exists()
    assert names(folder) == ["net-1_2", "net-1_3", "other-1_9"]
    assert len(list(folder.rglob("*.h5"))) == 6


def test_what_pruning_gives_back_is_the_length_of_all_shards_and_leftovers(folder: Path) -> None:
    shards = [folder / f"rank_{rank}" / f"net-1_{step}.h5" for rank in (0, 1) for step in (1, 2)]
    left = leave(folder / "rank_1" / "net-1_4.h5", 5000)
    nbytes = sum(path.stat().st_size for path in [*shards, left])
    assert prune(folder, 1, leftovers=True, dry_run=True).nbytes == nbytes
    assert prune(folder, 1, leftovers=True).nbytes == nbytes


def test_nothing_is_deleted_through_a_link(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "rank_1"
    shutil.move(folder / "rank_1", elsewhere)
    (folder / "rank_1").symlink_to(elsewhere)
    assert prune(folder, 2).removed == ("net-1_1",)
    assert sorted(path.name for path in elsewhere.iterdir()) == [f"net-1_{n}.h5" for n in (1, 2, 3)] + ["other-1_9.h5"]
    assert not (folder / "rank_0" / "net-1_1.h5").exists()


def test_one_prefix_alone_can_be_pruned(folder: Path) -> None:
    save(folder, 10, "other")
    assert prune(folder, 1, "net").removed == ("net-1_1", "net-1_2")
    assert names(folder) == ["net-1_3", "other-1_9", "other-1_10"]


@pytest.mark.parametrize("keep", [0, -1])
def test_the_newest_never_goes(folder: Path, keep: int) -> None:
    before = contents(folder)
    words = f"{folder}: cannot keep {keep} checkpoints; keep 1 or more, the newest always stays"
    with pytest.raises(CheckpointError, match=words):
        prune(folder, keep)
    assert contents(folder) == before


def test_one_that_lacks_a_file_does_not_count_but_stays(folder: Path) -> None:
    (folder / "rank_1" / "net-1_3.h5").unlink()
    assert prune(folder, 1).removed == ("net-1_1",)
    assert names(folder) == ["net-1_2", "net-1_3", "other-1_9"]
    save(folder, 4)
    assert prune(folder, 1).removed == ("net-1_2", "net-1_3")


def test_one_whose_manifest_is_damaged_stays(folder: Path) -> None:
    (folder / "net-1_1.manifest.json").write_text("{}")
    assert prune(folder, 1, leftovers=True).removed == ("net-1_2",)
    assert (folder / "rank_0" / "net-1_1.h5").exists()


def test_old_leftovers_go(folder: Path) -> None:
    left = [leave(folder / name, 700) for name in (".partial-a", "rank_0/.partial-b", "rank_1/net-1_4.h5")]
    notes = leave(folder / "rank_0" / "notes.txt", 700)
    done = prune(folder, leftovers=True)
    assert (sorted(done.cleared), done.spared, done.removed) == (sorted(left), (), ())
    assert notes.exists()
    assert not any(path.exists() for path in left)
    assert done.nbytes == 3 * len(b"left behind")


def test_while_a_save_may_be_running_leftovers_stay(folder: Path) -> None:
    old = leave(folder / "rank_0" / "net-1_4.h5", 5000)
    young = leave(folder / "rank_1" / ".partial-x", 60)
    done = prune(folder, leftovers=True)
    assert (done.cleared, sorted(done.spared)) == ((), sorted([old, young]))
    assert old.exists()
    assert young.exists()


def test_a_save_that_ends_meanwhile_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = folder / "net-1_3.manifest.json"
    content = manifest.read_bytes()
    manifest.unlink()
    shards = [folder / "rank_0" / "net-1_3.h5", folder / "rank_1" / "net-1_3.h5"]
    for path in shards:
        os.utime(path, (time.time() - 5000,) * 2)
    listed = pruning.uncommitted(folder)
    assert listed == shards
    manifest.write_bytes(content)
    monkeypatch.setattr(pruning, "uncommitted", lambda _: listed)
    assert prune(folder, leftovers=True).cleared == ()
    assert all(path.exists() for path in shards)


@pytest.mark.parametrize(("youngest", "is_spared"), [(0.5, True), (0.0, False)])
def test_a_leftover_that_is_gone_when_it_is_looked_at_was_written_just_now(
    youngest: float, is_spared: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = folder / "rank_0" / ".partial-gone"
    monkeypatch.setattr(pruning, "uncommitted", lambda _: [gone])
    done = prune(folder, leftovers=True, youngest=youngest)
    assert (done.cleared, done.spared) == (((), (gone,)) if is_spared else ((gone,), ()))
    assert done.nbytes == 0


def test_a_dry_run_says_the_same_and_deletes_nothing(folder: Path) -> None:
    leave(folder / "rank_1" / "net-1_4.h5", 5000)
    before = contents(folder)
    said = prune(folder, 1, leftovers=True, dry_run=True)
    assert contents(folder) == before
    assert prune(folder, 1, leftovers=True) == said


def test_shards_without_any_manifest_are_left_alone(tmp_path: Path) -> None:
    shard = tmp_path / "rank_0" / "net-1_1.h5"
    shard.parent.mkdir()
    shard.write_bytes(b"copied without its manifest")
    with pytest.raises(CheckpointError, match="has shards but no manifest at all"):
        prune(tmp_path, leftovers=True, youngest=0.0)
    assert shard.exists()


def listed(*saved: float | str) -> list[CheckpointFiles]:
    """Return checkpoints of one prefix by the seconds of their commit; a text is one whose shard is missing."""
    return [CheckpointFiles(str(one), "net", float(one), (("none.h5", 1),) * isinstance(one, str)) for one in saved]


@pytest.mark.parametrize(
    ("saved", "condemned"),
    [
        ((), ""),
        ((5,), ""),
        ((5, 6), ""),
        ((0, 5, 10, 11, 30), "5 11"),
        ((0, 5, 9.75, 10, 20), "5 9.75"),
        ((0, 12, 12, 13), "12"),
        (("0", 5, 10, 16), "10"),
        ((0, "5", "12", 13, 40), "5"),
        ((0, "12", 15, 21, 26), "21"),
    ],
)
def test_checkpoints_too_close_to_the_last_whole_one_that_stays_go(
    saved: tuple[float | str, ...], condemned: str, tmp_path: Path
) -> None:
    assert [one.name for one in too_close(tmp_path, listed(*saved), 10.0)] == condemned.split()


@pytest.mark.parametrize(
    ("saved", "keep", "condemned"),
    [
        ((1, 2, 3, 4), 1, "1 2 3"),
        ((1, 2, 3, 4), 3, "1"),
        ((1, 2, 3, 4), 4, ""),
        ((1, 2, 3, "4"), 2, "1"),
        ((1, "2", 3, 4), 2, "1 2"),
        ((1, "2", 3, "4"), 2, ""),
    ],
)
def test_checkpoints_older_than_so_many_whole_ones_go_the_oldest_first(
    saved: tuple[float | str, ...], keep: int, condemned: str, tmp_path: Path
) -> None:
    assert [one.name for one in beyond(tmp_path, listed(*saved), keep)] == condemned.split()


@pytest.mark.parametrize(("age", "youngest", "goes"), [(700, 600.0, True), (500, 600.0, False), (500, 400.0, True)])
def test_who_prunes_says_how_old_a_leftover_is(age: float, youngest: float, goes: bool, folder: Path) -> None:
    left = leave(folder / "rank_0" / ".partial-b", age)
    done = prune(folder, leftovers=True, youngest=youngest)
    assert (done.cleared, done.spared) == (((left,), ()) if goes else ((), (left,)))
    assert left.exists() != goes


def test_a_partial_file_alone_is_no_shard_without_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "rank_0").mkdir()
    left = leave(tmp_path / "rank_0" / ".partial-b", 700)
    assert prune(tmp_path, leftovers=True).cleared == (left,)
    assert not left.exists()


def test_a_leftover_of_any_age_goes(folder: Path) -> None:
    left = [leave(folder / "rank_0" / f".partial-{age}", age) for age in (1e9, time.time())]
    os.utime(left[1], (0, 0))
    assert prune(folder, leftovers=True).cleared == tuple(sorted(left))
