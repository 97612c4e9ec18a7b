from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mpiparallel.checkpoint.maintenance.verification import Verification, verify
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, TWIN, flip, held, save


def shard(folder: Path, rank: int) -> Path:
    return folder / f"rank_{rank}" / "net-1_77.h5"


def told(found: Verification) -> list[tuple[str, str, int | None, str | None]]:
    return [(problem.kind, problem.file, problem.rank, problem.tensor) for problem in found.problems]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return save(tmp_path)


def test_a_checkpoint_that_was_not_touched_is_sound(tmp_path: Path, manifest: Manifest) -> None:
    found = verify(tmp_path, manifest)
    assert (found.is_sound, found.problems, found.lost, found.damaged_ranks) == (True, (), (), ())


def test_a_missing_shard_and_a_missing_folder_are_told(tmp_path: Path, manifest: Manifest) -> None:
    shard(tmp_path, 1).unlink()
    shutil.rmtree(tmp_path / "rank_2")
    found = verify(tmp_path, manifest)
    assert told(found) == [
        ("missing", "rank_1/net-1_77.h5", 1, None),
        ("missing", "rank_2/net-1_77.h5", 2, None),
    ]
    assert (found.is_sound, found.lost, found.damaged_ranks) == (False, (), (1, 2))


@pytest.mark.parametrize("name", ["net.w", "net.b", "moment1.net.w", "table"])
def test_a_flipped_bit_is_told_of_the_array_that_has_it(tmp_path: Path, manifest: Manifest, name: str) -> None:
    with open_shard(shard(tmp_path, 3)) as file:
        offset = file.place(name).offset
    flip(shard(tmp_path, 3), offset + file.arrays[name].byte_count - 1)
    found = verify(tmp_path, manifest)
    assert told(found) == [("damaged", "rank_3/net-1_77.h5", 3, name)]
    check = found.checks[3]
    assert check is not None
    assert check.sound == LAYOUTS.keys() - {name}


def test_every_array_and_every_block_is_read(tmp_path: Path) -> None:
    layouts = {name: Layout((5 << 18,), DeviceMatrix((1,)), ((),)) for name in "ab"}
    manifest = save(tmp_path, layouts=layouts)
    with open_shard(shard(tmp_path, 0)) as file:
        places = {name: file.place(name).offset for name in "ab"}
    for name, block in (("a", 0), ("a", 1), ("a", 2), ("a", 4), ("b", 1)):
        flip(shard(tmp_path, 0), places[name] + (block << 20))
    texts = [str(problem) for problem in verify(tmp_path, manifest).problems]
    assert len(texts) == 2
    assert 'array "a": bytes 0 to 1048575 are damaged' in texts[0]
    assert texts[0].endswith(", and 3 more MiB of it")
    assert 'array "b": bytes 1048576 to 2097151 are damaged' in texts[1]


def test_one_flipped_bit_anywhere_is_found(tmp_path: Path) -> None:
    layouts = {"w": Layout((40,), DeviceMatrix((1,)), ((),)), "big": Layout((5000,), DeviceMatrix((1,)), ((),))}
    manifest = save(tmp_path, layouts=layouts)
    whole = shard(tmp_path, 0).read_bytes()
    for place in [*range(0, len(whole), 211), len(whole) - 1]:
        flip(shard(tmp_path, 0), place)
        assert not verify(tmp_path, manifest).is_sound, place
        shard(tmp_path, 0).write_bytes(whole)
    for length in (0, 1, len(whole) - 1, len(whole) + 1):
        shard(tmp_path, 0).write_bytes((whole + b"\0")[:length])
        assert not verify(tmp_path, manifest).is_sound, length


def test_a_shard_of_another_step_or_rank_is_told(tmp_path: Path, manifest: Manifest) -> None:
    save(tmp_path, 78)
    shutil.copy(tmp_path / "rank_1" / "net-1_78.h5", shard(tmp_path, 1))
    shutil.copy(shard(tmp_path, 3), shard(tmp_path, 2))
    found = verify(tmp_path, manifest)
    assert told(found) == [("damaged", "rank_1/net-1_77.h5", 1, None), ("damaged", "rank_2/net-1_77.h5", 2, None)]
    assert "of another rank or step" in found.problems[0].text


def test_what_no_sound_file_has_is_listed_with_its_ranks(tmp_path: Path, manifest: Manifest) -> None:
    shard(tmp_path, 1).unlink()
    flip(shard(tmp_path, TWIN[1]), -10)
    lost = verify(tmp_path, manifest).lost
    assert {(slice_.tensor, slice_.box, slice_.ranks) for slice_ in lost} == {
        (name, layout.box(1), (1, 5)) for name, layout in LAYOUTS.items() if name != "empty"
    }


def test_without_redundancy_each_shard_is_needed(tmp_path: Path) -> None:
    manifest = save(tmp_path, remove_redundancy=True)
    assert verify(tmp_path, manifest).is_sound
    shard(tmp_path, 3).unlink()
    written = manifest.shards[3]
    assert written is not None
    assert {slice_.tensor for slice_ in verify(tmp_path, manifest).lost} == set(written.arrays)


def test_replicas_that_have_drifted_apart_are_told(tmp_path: Path) -> None:
    drifted = {5: {"net.w": held("net.w", 77, 5) + 1}}
    with pytest.warns(UserWarning, match="should be equal"):
        manifest = save(tmp_path, changed=drifted)
    found = verify(tmp_path, manifest)
    assert told(found) == [("unequal", "rank_5/net-1_77.h5", 5, "net.w")]
    assert (found.is_sound, found.lost, found.damaged_ranks) == (False, (), ())


def test_a_file_that_only_hdf5_arranged_otherwise_is_told_as_such(tmp_path: Path, manifest: Manifest) -> None:
    entry = manifest.shards[2]
    assert entry is not None
    other = replace(entry, digest="0" * 32)
    found = verify(tmp_path, replace(manifest, shards=(*manifest.shards[:2], other, *manifest.shards[3:])))
    assert told(found) == [("rewritten", "rank_2/net-1_77.h5", 2, None)]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(b"other"), "is damaged or was changed"),
        (lambda path: (path.unlink(), path.symlink_to("/etc/passwd")), "is a link"),
        (lambda path: (path.unlink(), path.mkdir()), "is no regular file"),
    ],
)
def test_companions_are_compared(tmp_path: Path, damage: Callable[[Path], object], reason: str) -> None:
    strategy = tmp_path / "strategies" / "net.ckpt"
    strategy.parent.mkdir()
    strategy.write_bytes(b"strategy")
    manifest = save(tmp_path, companions=[strategy])
    assert verify(tmp_path, manifest).is_sound
    damage(strategy)
    found = verify(tmp_path, manifest)
    assert told(found) == [("companion", "strategies/net.ckpt", None, None)]
    assert reason in found.problems[0].text


@pytest.mark.parametrize("name", ["strategies", "strategies/deep"])
def test_a_companion_behind_a_link_is_not_followed(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "saved"
    strategy = folder / "strategies" / "deep" / "net.ckpt"
    strategy.parent.mkdir(parents=True)
    strategy.write_bytes(b"strategy")
    manifest = save(folder, companions=[strategy])
    assert verify(folder, manifest).is_sound
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    found = verify(folder, manifest)
    assert told(found) == [("companion", "strategies/deep/net.ckpt", None, None)]
    assert "link" in found.problems[0].text


@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: path.symlink_to(path),
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(os.urandom(4096)),
    ],
)
def test_whatever_lies_at_the_place_of_a_shard_is_told(
    tmp_path: Path, manifest: Manifest, put: Callable[[Path], object]
) -> None:
    shard(tmp_path, 4).unlink()
    put(shard(tmp_path, 4))
    assert told(verify(tmp_path, manifest)) == [("damaged", "rank_4/net-1_77.h5", 4, None)]


def test_nothing_outside_the_folder_is_opened(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    manifest = save(folder)
    (folder / "rank_6").rename(tmp_path / "elsewhere")
    (folder / "rank_6").symlink_to(tmp_path / "elsewhere")
    found = verify(folder, manifest)
    assert told(found) == [("damaged", "rank_6/net-1_77.h5", 6, None)]
    assert "link" in found.problems[0].text


def test_progress_ends_with_all_bytes_also_of_lost_files(tmp_path: Path, manifest: Manifest) -> None:
    shard(tmp_path, 1).unlink()
    calls: list[tuple[int, int]] = []
    verify(tmp_path, manifest, lambda done, total: calls.append((done, total)))
    done = [call[0] for call in calls]
    assert done == sorted(done)
    total = sum(entry.size for entry in manifest.shards if entry is not None)
    assert {call[1] for call in calls} == {total}
    assert done[-1] == total
