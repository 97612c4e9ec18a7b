"""A recovery that ends at any system call harms nothing, and the next one does what it would have done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from mpiparallel.checkpoint.files.durable_file import PARTIAL_PREFIX
from mpiparallel.checkpoint.maintenance.shard_recovery import recover
from mpiparallel.errors import CheckpointError
from tests.reliability import states
from tests.reliability.child import exit_status
from tests.reliability.counts import record
from tests.reliability.files.system_calls import CHANGES, EXIT_OF_CRASH, Fault, observed
from tests.reliability.subject import complaints, saved, wrong_arrays

RANKS = 4
KINDS = ("crash", "EIO", "ENOSPC", "short write", "EIO after the call was made", "EIO for ever")


@pytest.mark.parametrize("kind", KINDS)
def test_a_recovery_that_is_broken_off_can_be_made_again(quick_folder: Path, kind: str) -> None:
    state, folder = states.small(RANKS), quick_folder
    manifest = saved(folder, RANKS, state, 3)
    shards = [folder / shard.file for shard in manifest.shards if shard is not None]
    committed = contents(folder)
    for number in count(1):
        # Each slice has two holders; here one of each is lost or damaged.
        shutil.rmtree(shards[0].parent)
        shards[3].write_bytes(committed[shards[3]][:1000])
        fault = Fault(number, kind)

        def recovering(fault: Fault = fault) -> None:
            with observed(CHANGES, fault):
                recover(folder)

        if kind == "crash":
            status = exit_status(recovering)
            assert status in (0, EXIT_OF_CRASH)
            fault.fired = status == EXIT_OF_CRASH
        else:
            told = refusal(recovering)
            assert not told or (fault.fired and kind != "short write")
            assert not told or str(folder.parent) in told
        assert wrong_arrays(folder, manifest, RANKS, state) == []
        # What was whole before is so still.
        assert {path: content for path, content in contents(folder).items() if path in (shards[1], shards[2])} == {
            path: committed[path] for path in (shards[1], shards[2])
        }
        recover(folder)
        assert complaints(folder, manifest.name) == []
        left = {path: content for path, content in contents(folder).items() if PARTIAL_PREFIX not in path.name}
        assert left == committed
        if not fault.fired:
            break
    assert number > 2
    record(f"call of a recovery that goes wrong: {kind}", faults=number - 1, lost=0)


def refusal(function: Callable[[], None]) -> str:
    """Return the message of the refusal; empty where there is none."""
    try:
        function()
    except CheckpointError as error:
        return str(error)
    return ""


def contents(folder: Path) -> dict[Path, bytes]:
    """Return what is in each file."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
