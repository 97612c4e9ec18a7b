"""A shard that is lost or damaged is replaced by those of other ranks; what nobody else holds is refused by name."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpiparallel.checkpoint.maintenance.shard_recovery import LostSlicesError, recover
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.layout.box import Box
from tests.reliability.counts import record
from tests.reliability.states import STATES, State, Tensor, whole
from tests.reliability.subject import load_sound, saved, wrong_arrays

HARMS = ("lost", "damaged")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("label", STATES)
def test_any_one_shard_can_be_replaced(label: str, harm: str, tmp_path: Path) -> None:
    ranks, state = STATES[label]
    replaced = refused = 0
    manifest = saved(tmp_path / "whole", ranks, state, 3)
    for rank in range(ranks):
        folder = copied(tmp_path, rank)
        spoil(folder, manifest, rank, harm)
        alone = only_holder(state, {rank})
        if alone:
            told = load_sound(folder, manifest.name, ranks, state)
            check_refusal(told, alone, {rank})
            check_no_recovery(folder, alone, {rank})
            refused += 1
        else:
            assert wrong_arrays(folder, manifest, ranks, state) == []
            check_told(folder, manifest, rank)
            check_recovery(folder, tmp_path / "whole", rank)
            replaced += 1
    record(f"one shard {harm}: {label}", shards=ranks, replaced=replaced, refused_by_name=refused, wrong=0)


@pytest.mark.parametrize("label", STATES)
def test_what_all_holders_have_lost_is_refused_by_name(label: str, tmp_path: Path) -> None:
    ranks, state = STATES[label]
    manifest = saved(tmp_path / "whole", ranks, state, 3)
    groups = sorted(set(replica_sets(state)))
    for number, holders in enumerate(groups):
        folder = copied(tmp_path, number)
        for rank in holders:
            spoil(folder, manifest, rank, HARMS[rank % 2])
        told = load_sound(folder, manifest.name, ranks, state)
        check_refusal(told, only_holder(state, set(holders)), set(holders))
        check_no_recovery(folder, only_holder(state, set(holders)), set(holders))
    record(f"all holders of a slice lost: {label}", sets=len(groups), refused_by_name=len(groups), wrong=0)


def replica_sets(state: State) -> Iterator[tuple[int, ...]]:
    """Yield, for each slice of each tensor that has elements, the ranks that hold it: those with the same box."""
    for tensor in state.values():
        boxes = defaultdict(list)
        for rank in tensor.layout.devices.members:
            box = tensor.layout.box(rank)
            if box.size:
                boxes[box].append(rank)
        yield from map(tuple, map(sorted, boxes.values()))


def only_holder(state: State, ranks: set[int]) -> set[str]:
    """Return the names of the tensors of which ``ranks`` together hold something that no other rank holds."""
    return {name for name in state if any(set(holders) <= ranks for holders in replica_sets({name: state[name]}))}


def copied(tmp_path: Path, number: int) -> Path:
    folder = tmp_path / f"copy {number}"
    shutil.copytree(tmp_path / "whole", folder)
    return folder


def spoil(folder: Path, manifest: Manifest, rank: int, harm: str) -> None:
    """Delete the shard of a rank, or turn over a bit in each of its pages."""
    shard = manifest.shards[rank]
    assert shard is not None
    path = folder / shard.file
    if harm == "lost":
        path.unlink()
        return
    content = bytearray(path.read_bytes())
    for position in range(17, len(content), 512):
        content[position] ^= 4
    path.write_bytes(content)


def check_told(folder: Path, manifest: Manifest, rank: int) -> None:
    """See that reading all there is says that ``rank`` was replaced, and from whom, and gives what was saved."""
    with StoredState.of_manifest(folder, manifest) as stored:
        for name, tensor in stored.tensors.items():
            found = stored.read_box(name, Box.whole(tensor.layout.global_shape))
            expected = whole(name, Tensor(tensor.layout, tensor.dtype.str), manifest.step)
            assert found.tobytes() == expected.tobytes()
        for lost, reason in stored.replaced.items():
            assert lost == rank
            assert "read from rank" in reason
            assert str(folder / f"rank_{rank}") in reason


def check_recovery(folder: Path, whole_folder: Path, rank: int) -> None:
    """See that recovery makes the files those that were committed, byte for byte, and says from whom."""
    made = recover(folder)
    assert [rebuilt.rank for rebuilt in made.rebuilt] == [rank]
    assert made.rebuilt[0].sources
    assert contents(folder) == contents(whole_folder)
    assert recover(folder).rebuilt == ()


def check_no_recovery(folder: Path, tensors: set[str], ranks: set[int]) -> None:
    """See that recovery refuses, lists all that is missing and who had it, and changes nothing."""
    before = contents(folder)
    with pytest.raises(LostSlicesError) as refusal:
        recover(folder)
    assert contents(folder) == before
    assert {slice_.tensor for slice_ in refusal.value.slices} == tensors
    assert {rank for slice_ in refusal.value.slices for rank in slice_.ranks} <= ranks
    assert all(f'"{name}"' in str(refusal.value) for name in tensors)


def contents(folder: Path) -> dict[str, bytes]:
    """Return what is in each file, by its path in the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_refusal(told: str, tensors: set[str], ranks: set[int]) -> None:
    """See that a refusal names a tensor that is lost, and the ranks that held it."""
    assert told, f"SILENT: {tensors} of ranks {ranks} are lost, and something was loaded"
    assert any(f'"{name}"' in told for name in tensors), told
    assert any(f"rank {rank}" in told for rank in ranks), told
