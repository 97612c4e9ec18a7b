from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.files.durable_file import PARTIAL_PREFIX
from mpiparallel.checkpoint.maintenance import shard_recovery
from mpiparallel.checkpoint.maintenance.shard_recovery import LostSlicesError, recover
from mpiparallel.checkpoint.maintenance.verification import verify
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, RANKS, TWIN, contents, flip, held, save
from tests.reliability.child import exit_status
from tests.reliability.files.system_calls import CHANGES, EXIT_OF_CRASH, Fault, observed

Harm = Callable[[Path], object]
HARMS: dict[str, Harm] = {
    "deleted": lambda path: path.unlink(),
    "without its folder": lambda path: shutil.rmtree(path.parent),
    "cut short": lambda path: os.truncate(path, 1000),
    "a bit of its head": lambda path: flip(path, 40),
    "a bit of its end": lambda path: flip(path, 0.999),
    "a link": lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "of another rank": lambda path: shutil.copy(path.parent.parent / "rank_7" / path.name, path),
}


def shard(folder: Path, rank: int) -> Path:
    return folder / f"rank_{rank}" / "net-1_77.h5"


def flip_in(path: Path, name: str) -> None:
    """Flip a bit of one array of a shard."""
    with open_shard(path) as file:
        offset = file.place(name).offset
    flip(path, offset)


@pytest.mark.parametrize("harm", HARMS)
def test_any_one_shard_comes_back_byte_for_byte(tmp_path: Path, harm: str) -> None:
    save(tmp_path)
    committed = contents(tmp_path)
    for rank in range(RANKS - 1):
        HARMS[harm](shard(tmp_path, rank))
        found = recover(tmp_path)
        assert contents(tmp_path) == committed
        assert [rebuilt.rank for rebuilt in found.rebuilt] == [rank]
        assert found.rebuilt[0].file == f"rank_{rank}/net-1_77.h5"
        # An array without elements is the same in every file.
        sources = {name: source for source, names in found.rebuilt[0].sources.items() for name in names}
        keeps_its_arrays = harm == "a bit of its head" or (harm == "of another rank" and TWIN[rank] == RANKS - 1)
        expected = rank if keeps_its_arrays else TWIN[rank]
        assert {**sources, "empty": expected} == dict.fromkeys(LAYOUTS, expected)
        assert (found.renewed, found.remaining) == ((), ())


def test_one_shard_of_every_set_of_replicas_may_be_lost_at_once(tmp_path: Path) -> None:
    save(tmp_path)
    committed = contents(tmp_path)
    for rank, harm in zip((0, 5, 2, 7), ("deleted", "cut short", "a link", "without its folder"), strict=True):
        HARMS[harm](shard(tmp_path, rank))
    found = recover(tmp_path, "net-1_77")
    assert contents(tmp_path) == committed
    assert [(rebuilt.rank, *rebuilt.sources) for rebuilt in found.rebuilt] == [(0, 4), (2, 6), (5, 1), (7, 3)]


def test_a_replica_that_was_copied_by_hand_serves_for_others_too(tmp_path: Path) -> None:
    save(tmp_path)
    committed = contents(tmp_path)
    shutil.copy(shard(tmp_path, TWIN[0]), shard(tmp_path, 0))
    shard(tmp_path, TWIN[0]).unlink()
    assert [rebuilt.rank for rebuilt in recover(tmp_path).rebuilt] == [0, TWIN[0]]
    assert contents(tmp_path) == committed


def test_of_a_damaged_file_what_is_whole_is_kept(tmp_path: Path) -> None:
    save(tmp_path)
    committed = contents(tmp_path)
    # Both files are damaged, but in other arrays: together they have it all.
    flip_in(shard(tmp_path, 1), "net.w")
    flip_in(shard(tmp_path, 5), "table")
    found = recover(tmp_path)
    assert contents(tmp_path) == committed
    others = tuple(sorted(LAYOUTS.keys() - {"net.w"}))
    assert found.rebuilt[0].sources == {1: others, 5: ("net.w",)}


@pytest.mark.parametrize("harms", [("deleted", "deleted"), ("cut short", "deleted"), ("of another rank", "a link")])
def test_a_whole_set_of_replicas_is_refused_with_the_list_and_nothing_is_changed(
    tmp_path: Path, harms: tuple[str, str]
) -> None:
    save(tmp_path)
    for rank in range(RANKS // 2 - 1):
        target = tmp_path / f"copy_{rank}"
        shutil.copytree(tmp_path, target, ignore=shutil.ignore_patterns("copy_*"))
        HARMS[harms[0]](shard(target, rank))
        HARMS[harms[1]](shard(target, TWIN[rank]))
        # One that could be rebuilt alone stays as it is too.
        shard(target, 3).unlink()
        before = contents(target)
        with pytest.raises(LostSlicesError, match="nothing was changed") as caught:
            recover(target)
        assert contents(target) == before
        lost = {(slice_.tensor, slice_.box, slice_.ranks) for slice_ in caught.value.slices}
        assert lost == {
            (name, layout.box(rank), (rank, TWIN[rank])) for name, layout in LAYOUTS.items() if name != "empty"
        }
        for name in LAYOUTS.keys() - {"empty"}:
            assert f'"{name}"' in str(caught.value)
        assert f"rank_{rank}/net-1_77.h5" in str(caught.value)


def test_slices_without_elements_need_no_replica(tmp_path: Path) -> None:
    layouts = {
        "uneven": Layout((3,), DeviceMatrix((4,)), ((0,),)),
        "all": Layout((3,), DeviceMatrix((4,)), ((),)),
    }
    save(tmp_path, layouts=layouts)
    committed = contents(tmp_path)
    shard(tmp_path, 3).unlink()
    assert [rebuilt.sources for rebuilt in recover(tmp_path).rebuilt] == [{0: ("all",)}]
    assert contents(tmp_path) == committed


def test_a_manifest_that_contradicts_itself_costs_no_file(tmp_path: Path) -> None:
    manifest = save(tmp_path)
    tensors = {**manifest.tensors, "net.w": manifest.tensors["empty"]}
    replace(manifest, tensors=tensors).write(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(LostSlicesError):
        recover(tmp_path)
    assert contents(tmp_path) == before


def test_a_replica_that_has_drifted_away_is_not_taken_for_what_was_lost(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="should be equal"):
        save(tmp_path, changed={5: {"net.w": held("net.w", 77, 5) + 1}})
    committed = contents(tmp_path)
    shard(tmp_path, 5).unlink()
    with pytest.raises(LostSlicesError) as caught:
        recover(tmp_path)
    assert [(slice_.tensor, slice_.box) for slice_ in caught.value.slices] == [("net.w", LAYOUTS["net.w"].box(5))]
    shard(tmp_path, 5).write_bytes(committed["rank_5/net-1_77.h5"])
    shard(tmp_path, 2).unlink()
    found = recover(tmp_path)
    assert [(problem.kind, problem.rank) for problem in found.remaining] == [("unequal", 5)]
    assert contents(tmp_path) == committed


def test_without_redundancy_no_shard_can_be_rebuilt(tmp_path: Path) -> None:
    save(tmp_path, remove_redundancy=True)
    shard(tmp_path, 3).unlink()
    with pytest.raises(LostSlicesError):
        recover(tmp_path)


def test_the_newest_checkpoint_is_meant_where_none_is_named(tmp_path: Path) -> None:
    save(tmp_path, 76)
    save(tmp_path, 77)
    for name in ("net-1_76.h5", "net-1_77.h5"):
        (tmp_path / "rank_1" / name).unlink()
    assert recover(tmp_path).name == "net-1_77"
    assert not (tmp_path / "rank_1" / "net-1_76.h5").exists()
    assert recover(tmp_path, "net-1_76").name == "net-1_76"
    with pytest.raises(CheckpointError, match="net-1_75"):
        recover(tmp_path, "net-1_75")


def test_a_sound_checkpoint_is_left_alone(tmp_path: Path) -> None:
    save(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert recover(tmp_path).rebuilt == ()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_lost_companion_remains_a_problem(tmp_path: Path) -> None:
    (tmp_path / "net.strategy.ckpt").write_bytes(b"strategy")
    save(tmp_path, companions=[tmp_path / "net.strategy.ckpt"])
    (tmp_path / "net.strategy.ckpt").unlink()
    assert [str(problem) for problem in recover(tmp_path).remaining] == ["net.strategy.ckpt: is missing"]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (lambda folder: (folder / "rank_2").symlink_to(folder / "rank_6"), "is a link or no folder"),
        (lambda folder: (folder / "rank_2").write_bytes(b""), "is a link or no folder"),
        (lambda folder: shard(folder, 2).mkdir(parents=True), "is a folder where a shard belongs"),
    ],
)
def test_nothing_is_written_where_no_shard_can_be(tmp_path: Path, place: Harm, reason: str) -> None:
    save(tmp_path)
    shutil.rmtree(tmp_path / "rank_2")
    shard(tmp_path, 1).unlink()
    place(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match=reason):
        recover(tmp_path)
    assert contents(tmp_path) == before


def with_other_digest(manifest: Manifest, rank: int) -> Manifest:
    """Return the manifest as it would be if HDF5 had arranged the shard of a rank otherwise."""
    entry = manifest.shards[rank]
    assert entry is not None
    return replace(
        manifest,
        shards=(*manifest.shards[:rank], replace(entry, digest="0" * 32, size=1), *manifest.shards[rank + 1 :]),
    )


def test_where_hdf5_arranges_a_shard_otherwise_the_manifest_is_renewed(tmp_path: Path) -> None:
    manifest = save(tmp_path)
    committed = contents(tmp_path)
    with_other_digest(manifest, 2).write(tmp_path)
    shard(tmp_path, 2).unlink()
    found = recover(tmp_path)
    assert ([rebuilt.rank for rebuilt in found.rebuilt], found.renewed) == ([2], (2,))
    assert contents(tmp_path) == committed
    # The same where the shard itself is there.
    with_other_digest(manifest, 2).write(tmp_path)
    assert not verify(tmp_path, newest(tmp_path)).is_sound
    assert (recover(tmp_path).renewed, contents(tmp_path)) == ((2,), committed)


def test_what_only_a_rearranged_shard_has_survives_a_kill_before_the_manifest_is_renewed(tmp_path: Path) -> None:
    manifest = save(tmp_path)
    committed = contents(tmp_path)
    with_other_digest(manifest, 1).write(tmp_path)
    # Only rank 1 still has what it has, in a file that the manifest does not know.
    shard(tmp_path, 5).unlink()
    recover(tmp_path)
    assert contents(tmp_path) == committed


def test_killed_at_any_call_it_can_be_called_again(tmp_path: Path) -> None:
    manifest = save(tmp_path)
    committed = contents(tmp_path)
    with_other_digest(manifest, 2).write(tmp_path)
    harmed = contents(tmp_path)
    for number in count(1):
        shard(tmp_path, 2).unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "rank_4", ignore_errors=True)
        flip_in(shard(tmp_path, 7), "net.w")
        (tmp_path / "net-1_77.manifest.json").write_bytes(harmed["net-1_77.manifest.json"])

        def recovering(number: int = number) -> None:
            with observed(CHANGES, Fault(number, "crash")):
                recover(tmp_path)

        status = exit_status(recovering)
        assert status in (0, EXIT_OF_CRASH)
        # What was whole is whole still, at whatever call it ended.
        found = verify(tmp_path, newest(tmp_path))
        assert found.lost == ()
        assert set(found.damaged_ranks) <= {2, 4, 7}
        recover(tmp_path)
        left = {name: content for name, content in contents(tmp_path).items() if PARTIAL_PREFIX not in name}
        assert left == committed
        if not status:
            break
    assert number > 30


def test_memory_that_changes_bytes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path)
    shard(tmp_path, 2).unlink()
    write = shard_recovery.write_rank_shard

    def corrupting(folder: Path, identity: Any, rank: int, specs: Any, arrays: Any, **options: Any) -> Any:
        changed = ((name, array + 1 if name == "net.w" else array) for name, array in arrays)
        return write(folder, identity, rank, specs, changed, **options)

    monkeypatch.setattr(shard_recovery, "write_rank_shard", corrupting)
    with pytest.raises(CheckpointError, match="changes bytes"):
        recover(tmp_path)
    monkeypatch.undo()
    assert [rebuilt.rank for rebuilt in recover(tmp_path).rebuilt] == [2]


def test_a_checkpoint_that_was_deleted_meanwhile_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = save(tmp_path)
    with_other_digest(manifest, 2).write(tmp_path)

    def verified(*arguments: Any) -> Any:
        found = verify(*arguments)
        (tmp_path / "net-1_77.manifest.json").unlink()
        return found

    monkeypatch.setattr(shard_recovery, "verify", verified)
    with pytest.raises(CheckpointError, match="was deleted meanwhile"):
        recover(tmp_path)
    assert not (tmp_path / "net-1_77.manifest.json").exists()


def test_the_manifest_keeps_all_else_when_it_is_renewed(tmp_path: Path) -> None:
    manifest = save(tmp_path)
    time.sleep(0.01)
    with_other_digest(manifest, 2).write(tmp_path)
    recover(tmp_path)
    assert newest(tmp_path) == manifest
    assert json.loads((tmp_path / "net-1_77.manifest.json").read_text())["manifest"]["training"] == {"seed": 5}


def test_one_source_is_enough_where_a_replica_has_it_all(tmp_path: Path) -> None:
    layouts = {**LAYOUTS, "a": Layout((3,), DeviceMatrix((8,)), ((),))}
    save(tmp_path, layouts=layouts)
    shard(tmp_path, 6).unlink()
    assert [list(rebuilt.sources) for rebuilt in recover(tmp_path).rebuilt] == [[TWIN[6]]]
