"""The disk is full, or files may grow no further, at any point of a save: the refusal says so, and nothing is left."""

from __future__ import annotations

import os
import random
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, nn
from mpiparallel.checkpoint.catalogue import CheckpointFiles, remove, remove_files, uncommitted
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.callback import Callback
from tests.reliability import states
from tests.reliability.child import exit_status
from tests.reliability.counts import count, record
from tests.reliability.files.failing_disks import small_disk
from tests.reliability.subject import save, saved, steps_in, wrong_arrays

RANKS = 2
DISK = 3 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    with small_disk(tmp_path / "disk", DISK) as folder:
        yield folder


def test_a_full_disk_is_refused_and_nothing_is_left_on_it(disk: Path) -> None:
    state, step, refused, left_behind = states.small(RANKS), 1, 0, 0
    root, filler = disk / "checkpoints", disk / "filler"
    saved(root, RANKS, state, step)
    room = free_bytes(disk)
    needed = room - (saved(root, RANKS, state, step + 1), free_bytes(disk))[1]
    remove(root, [CheckpointFiles.of(steps_in(root)[step + 1])])
    tries = count(200, 25)
    for number in range(tries):
        # From no room at all to a little more than enough.
        left = round((needed + 16384) * number / (tries - 1))
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free_bytes(disk) - left))
        told = run_world(RANKS, outcome, root, state, step + 1)
        assert len(set(told)) == 1
        there = steps_in(root)
        if told[0]:
            refused += 1
            check_refusal(told[0], root)
            assert set(there) == {step}
            # Of a manifest that may be on disk all the same the shards are kept.
            assert uncommitted(root) == [] or "manifest.json" in told[0]
            left_behind += len(uncommitted(root))
        filler.unlink()
        assert set(there) >= {step}
        for manifest in there.values():
            assert wrong_arrays(root, manifest, RANKS, state) == []
        # The training goes on, and saves again once there is room.
        remove_files(uncommitted(root))
        saved(root, RANKS, state, step + 2)
        for old in steps_in(root).keys() - {step + 2}:
            remove(root, [CheckpointFiles.of(steps_in(root)[old])])
        step += 2
    assert 0 < refused < tries
    record("disk full, at any point of a save", saves=tries, refused=refused, left_behind=left_behind, lost=0)


@pytest.mark.parametrize("on_error", ["warn", "raise"])
def test_a_training_goes_on_while_the_disk_is_full_if_it_is_told_to(
    disk: Path, on_error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(1).standard_normal((12, 3))
    data = NumpySlicesDataset((rows, rows[:, :1].copy()), ["x", "y"]).batch(2)
    network = nn.Dense(3, 1).to_float("float64")
    model = Model(network, nn.MSELoss(), nn.Adam(network.trainable_params()))
    config = CheckpointConfig(save_checkpoint_steps=1, keep_checkpoint_max=9, on_error=on_error)
    callbacks = [FullBetween(disk, 2, 4), ModelCheckpoint("net", str(disk / "checkpoints"), config)]
    if on_error == "raise":
        with pytest.raises(CheckpointError, match=r"needs \d+ bytes"):
            model.train(1, data, callbacks, dataset_sink_mode=False)
        assert set(steps_in(disk / "checkpoints")) == {1}
        return
    model.train(1, data, callbacks, dataset_sink_mode=False)
    assert model.step == 6
    assert set(steps_in(disk / "checkpoints")) == {1, 4, 5, 6}
    printed = capsys.readouterr().out
    assert "step 2" in printed
    assert "No space left" in printed


class FullBetween(Callback):
    """Fills the disk at a step, and empties it again at a later one."""

    def __init__(self, disk: Path, first: int, last: int) -> None:
        self._disk, self._first, self._last = disk, first, last

    def step_end(self, run_context: Any) -> None:
        step, filler = run_context.original_args().cur_step_num, self._disk / "filler"
        if step == self._first:
            with filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, free_bytes(self._disk))
        if step == self._last:
            filler.unlink()


def test_files_that_may_grow_no_further_are_refused_and_nothing_is_left(quick_folder: Path) -> None:
    state = states.replicated(RANKS)
    manifest = saved(quick_folder, RANKS, state, 1)
    longest = max(shard.size for shard in manifest.shards if shard is not None)
    chance, tries = random.Random(3), count(200, 15)

    def attempt(most: int) -> None:
        # Python ignores SIGXFSZ, so the call fails with EFBIG.
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        told = run_world(RANKS, outcome, quick_folder, state, 2)
        assert len(set(told)) == 1
        check_refusal(told[0], quick_folder)

    for _ in range(tries):
        assert exit_status(lambda: attempt(chance.randrange(longest))) == 0
        assert uncommitted(quick_folder) == []
        assert wrong_arrays(quick_folder, steps_in(quick_folder)[1], RANKS, state) == []
    record("file size limit, at any point of a save", saves=tries, refused=tries, left_behind=0, lost=0)


def outcome(communicator: Communicator, folder: Path, state: states.State, step: int) -> str:
    """Save; return "", or the message of the refusal."""
    try:
        save(communicator, folder, state, step)
    except CheckpointError as error:
        return str(error)
    return ""


def check_refusal(told: str, folder: Path) -> None:
    """See that a refusal names rank and file, says why, and how much room is needed."""
    assert re.search(r"rank \d: ", told), told
    assert str(folder) in told, told
    assert re.search("No space left|File too large", told), told
    assert re.search(r"needs \d+ bytes", told), told


def free_bytes(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize
