"""What is wrong with a shard is told in words, and progress counts each of its bytes whatever they are worth."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import xxhash

from mpiparallel.checkpoint.maintenance.shard_recovery import LostSlicesError, recover
from mpiparallel.checkpoint.maintenance.verification import LostSlice, verify
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.checkpoint.shard_places import ShardPlaces
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, flip, held, save

ONE = {"a": Layout((3,), DeviceMatrix((1,)), ((),)), "b": Layout((2, 2), DeviceMatrix((1,)), ((), ()))}


def shard(folder: Path, rank: int, suffix: str = "h5") -> Path:
    return folder / f"rank_{rank}" / f"net-1_77.{suffix}"


def texts(folder: Path, manifest: Manifest) -> list[str]:
    return [str(problem) for problem in verify(folder, manifest).problems]


def test_a_rank_that_wrote_nothing_has_nothing_to_check(tmp_path: Path) -> None:
    layouts = {"a": Layout((3,), DeviceMatrix((1,), 1), ((),))}
    found = verify(tmp_path, save(tmp_path, layouts=layouts))
    assert found.is_sound
    assert [check and check.rank for check in found.checks] == [None, 1]


def test_a_check_has_digest_and_length_of_the_file_that_is_there(tmp_path: Path) -> None:
    manifest = save(tmp_path, layouts=ONE)
    (check,), (entry,) = verify(tmp_path, manifest).checks, manifest.shards
    assert check is not None
    assert entry is not None
    assert (check.digest, check.size, check.sound) == (entry.digest, entry.size, {"a", "b"})
    assert check.size == shard(tmp_path, 0).stat().st_size
    shard(tmp_path, 0).unlink()
    (check,) = verify(tmp_path, manifest).checks
    assert check is not None
    assert (check.digest, check.size, check.sound) == ("", 0, frozenset())


def test_a_shard_of_another_step_is_told_with_how_many_arrays_are_not_its_own(tmp_path: Path) -> None:
    manifest = save(tmp_path, layouts=ONE)
    save(tmp_path, 78, layouts=ONE)
    shutil.copy(tmp_path / "rank_0" / "net-1_78.h5", shard(tmp_path, 0))
    assert texts(tmp_path, manifest) == ["rank_0/net-1_77.h5: is of another rank or step: 2 arrays are not its own"]


def test_an_array_whose_last_block_is_short_is_read_to_its_end(tmp_path: Path) -> None:
    layouts = {"a": Layout(((1 << 18) + 5,), DeviceMatrix((1,)), ((),))}
    manifest = save(tmp_path, layouts=layouts)
    assert verify(tmp_path, manifest).is_sound
    with open_shard(shard(tmp_path, 0)) as file:
        offset = file.place("a").offset
    flip(shard(tmp_path, 0), offset + (1 << 20) + 19)
    (text,) = texts(tmp_path, manifest)
    assert text.startswith('rank_0/net-1_77.h5: array "a": bytes 1048576 to 1048595 are damaged (XXH3 ')


def test_bytes_around_the_arrays_are_told_as_such(tmp_path: Path) -> None:
    manifest = save(tmp_path, layouts=ONE)
    flip(shard(tmp_path, 0), 40)
    (text,) = texts(tmp_path, manifest)
    assert text.startswith("rank_0/net-1_77.h5: skeleton: what is around the arrays is damaged (XXH3 ")
    assert text.endswith(")")


@pytest.mark.parametrize("suffix", ["ckpt", "safetensors"])
def test_one_array_of_a_shard_in_another_format_is_told_and_the_others_are_sound(suffix: str, tmp_path: Path) -> None:
    manifest = save(tmp_path, layouts=ONE, places=ShardPlaces(format=suffix))
    path = shard(tmp_path, 0, suffix)
    content = path.read_bytes()
    assert verify(tmp_path, manifest).is_sound
    # Without its CRC32 a file of MindSpore's format does not show that it was changed.
    content = content[:-17] if suffix == "ckpt" else content
    path.write_bytes(content.replace(held("a", 77, 0, ONE).tobytes(), held("a", 78, 0, ONE).tobytes(), 1))
    found = verify(tmp_path, manifest)
    assert [str(problem) for problem in found.problems] == [
        f"rank_0/net-1_77.{suffix}: is of another rank or step: 1 arrays are not its own"
    ]
    (check,) = found.checks
    assert check is not None
    assert check.sound == {"b"}


HARMS: dict[str, Callable[[Path], object]] = {
    "none": lambda path: None,
    "missing": lambda path: path.unlink(),
    "cut short": lambda path: os.truncate(path, 1000),
    "a bit of an array": lambda path: flip_in(path, "table"),
    "a bit of its head": lambda path: flip(path, 40),
    "of another rank": lambda path: shutil.copy(shard(path.parents[1], 2), path),
}


def flip_in(path: Path, name: str) -> None:
    with open_shard(path) as file:
        offset = file.place(name).offset
    flip(path, offset)


@pytest.mark.parametrize("harm", HARMS)
def test_progress_counts_all_bytes_whatever_a_file_is_worth(harm: str, tmp_path: Path) -> None:
    manifest = save(tmp_path)
    HARMS[harm](shard(tmp_path, 5))
    told: list[tuple[int, int]] = []
    verify(tmp_path, manifest, lambda *both: told.append(both))
    total = sum(entry.size for entry in manifest.shards if entry is not None)
    assert {both[1] for both in told} == {total}
    done = [both[0] for both in told]
    assert done == sorted(done)
    # All of it at the end, and not long before.
    assert done[-1] == total
    assert done.count(total) <= len(LAYOUTS)


def test_a_slice_that_differs_is_told_with_the_first_that_has_it(tmp_path: Path) -> None:
    layouts = {"a": Layout((3,), DeviceMatrix((3,)), ((),))}
    with pytest.warns(UserWarning, match="should be equal"):
        manifest = save(tmp_path, layouts=layouts, changed={2: {"a": held("a", 78, 2, layouts)}})
    assert texts(tmp_path, manifest) == [
        'rank_2/net-1_77.h5: array "a": is not equal to that of rank 0, whose replica it is; both are as they were '
        "saved"
    ]


def test_a_companion_that_was_changed_is_told_with_both_digests(tmp_path: Path) -> None:
    companion = tmp_path / "net-1_77.strategy.ckpt"
    companion.write_bytes(b"one")
    manifest = save(tmp_path, layouts=ONE, companions=[companion])
    companion.write_bytes(b"other")
    one, other = (xxhash.xxh3_128_hexdigest(content) for content in (b"one", b"other"))
    assert texts(tmp_path, manifest) == [
        f"net-1_77.strategy.ckpt: is damaged or was changed (XXH3 {other}, expected {one})"
    ]


@pytest.mark.parametrize(
    ("ranks", "told"),
    [((3,), '"w" [0, 2] to [4, 5], of rank 3'), ((3, 7), '"w" [0, 2] to [4, 5], of ranks 3, 7')],
)
def test_a_lost_slice_is_told_with_its_ranks(ranks: tuple[int, ...], told: str) -> None:
    assert str(LostSlice("w", Box((0, 2), (4, 5)), ranks)) == told


@pytest.mark.parametrize(("count", "more"), [(20, []), (33, ["  and 13 more"])])
def test_slices_that_cannot_be_made_whole_are_listed_up_to_twenty(count: int, more: list[str], tmp_path: Path) -> None:
    layouts = {f"w{index:02}": Layout((2,), DeviceMatrix((1,)), ((),)) for index in range(count)}
    save(tmp_path, layouts=layouts)
    shard(tmp_path, 0).unlink()
    with pytest.raises(LostSlicesError) as caught:
        recover(tmp_path)
    assert str(caught.value).splitlines() == [
        f"{tmp_path}: checkpoint net-1_77 cannot be made whole, and nothing was changed: {count} slices are in no "
        "sound file; restore one file of each from a copy, or use an older checkpoint",
        "missing:",
        *(f'  "w{index:02}" [0] to [2], of rank 0' for index in range(20)),
        *more,
        "because:",
        "  rank_0/net-1_77.h5: is missing",
    ]
    assert len(caught.value.slices) == count


def test_what_was_rebuilt_is_told_with_its_length_and_what_was_wrong(tmp_path: Path) -> None:
    save(tmp_path)
    length = shard(tmp_path, 1).stat().st_size
    shard(tmp_path, 1).unlink()
    found = recover(tmp_path)
    (rebuilt,) = found.rebuilt
    assert (found.folder, found.name, rebuilt.size) == (tmp_path, "net-1_77", length)
    assert [str(problem) for problem in rebuilt.problems] == ["rank_1/net-1_77.h5: is missing"]
