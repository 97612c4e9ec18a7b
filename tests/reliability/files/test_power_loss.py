"""The power fails after any system call: what was acknowledged is there, and what counts as a checkpoint is right."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from mpiparallel.checkpoint.catalogue import CheckpointFiles, remove
from mpiparallel.communication.threads import run_world
from tests.reliability import states
from tests.reliability.counts import count, record
from tests.reliability.files.failing_disks import Disk, restore
from tests.reliability.files.system_calls import CHANGES, observed
from tests.reliability.subject import save, steps_in, wrong_arrays

RANKS = 2
STEPS = 3
# Folders that the first save has to make.
NEW = Path("runs", "one")


@pytest.fixture
def disk(quick_folder: Path) -> Disk:
    """The calls of three saves, the first of which is deleted after the third."""
    root = quick_folder
    root.mkdir()
    seen = Disk(root)
    with observed(CHANGES, seen):
        for step in range(1, STEPS + 1):
            run_world(RANKS, save, root / NEW, states.small(RANKS), step)
            seen.told.append(step)
        seen.told.remove(1)
        remove(root / NEW, [CheckpointFiles.of(steps_in(root / NEW)[1])])
    seen.forget()
    return seen


def test_what_was_acknowledged_outlives_the_power(disk: Disk) -> None:
    chance = random.Random(5)
    root = disk.root.stat().st_ino
    ways = count(20, 2)
    for number, instant in enumerate(disk.instants):
        # All that was not synced is lost; all of the names, but no bytes, are kept; and any mixture.
        for way in range(2 + ways):
            target = disk.root.with_name("after")
            restore(instant, root, target, chance if way > 1 else None, way == 0)
            folder = target / NEW
            there = steps_in(folder) if folder.exists() else {}
            assert set(instant.told) <= set(there), (
                f"after call {number}, told {instant.told}, there are {sorted(there)}"
            )
            for step, manifest in there.items():
                assert wrong_arrays(folder, manifest, RANKS, states.small(RANKS)) == [], f"call {number}, step {step}"
            shutil.rmtree(target)
    assert len(disk.instants) > 10 * STEPS
    record("power lost after a call", instants=len(disk.instants), outcomes=len(disk.instants) * (2 + ways), lost=0)
