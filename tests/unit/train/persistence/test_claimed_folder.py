"""A training keeps the folder of its checkpoints for itself while it lasts, and not longer."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from dataclasses import replace

import pytest

from mpiparallel.checkpoint.files.folder_claim import MARK, FolderClaim
from mpiparallel.checkpoint.files.folder_holder import Holder
from mpiparallel.cluster.flight.process_state import birth_of
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from tests.conformance.trainings.saved_training import RANKS, At, committed, make_dataset, make_model, train_and_save

ALL = ["dense-1_2", "dense-2_1", "dense-2_3"]
EVERY_SECOND = CheckpointConfig(2)


def marks(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(f"{MARK}*"))


def of_others(folder):
    """Mark a folder as that of the process that has started this one."""
    mark = folder / MARK
    folder.mkdir(exist_ok=True)
    mark.touch()
    parent = os.getppid()
    other = replace(Holder.here(), training="other", process=parent, birth=birth_of(parent), file=mark.stat().st_ino)
    mark.write_bytes(other.encoded())
    return mark.read_bytes()


@pytest.mark.parametrize("layout", ["checkpoints", "ckpt_{rank}"])
def test_the_marks_are_there_while_it_trains(tmp_path, layout) -> None:
    def job(communicator):
        seen = []
        directory = tmp_path / layout.format(rank=communicator.rank)
        train_and_save(communicator, directory, 1, EVERY_SECOND, At(1, lambda: seen.append(marks(tmp_path))))
        return seen[0]

    wanted = {"checkpoints": [f"checkpoints/{MARK}"], "ckpt_{rank}": [MARK, *(f"ckpt_{r}/{MARK}" for r in range(4))]}
    assert run_world(RANKS, job) == [sorted(wanted[layout])] * RANKS
    assert marks(tmp_path) == []


def test_an_error_gives_the_folder_back(tmp_path) -> None:
    seen = []

    def job(communicator):
        def fail():
            seen.append(marks(tmp_path))
            communicator.barrier()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            train_and_save(communicator, tmp_path, 1, EVERY_SECOND, At(1, fail))
        communicator.barrier()
        return marks(tmp_path)

    assert run_world(2, job) == [[]] * 2
    assert seen == [[MARK]] * 2


def test_where_another_job_saves_all_ranks_are_refused_before_anything_is_written(tmp_path) -> None:
    theirs = of_others(tmp_path)

    def job(communicator):
        with pytest.raises(
            CheckpointError, match=rf"rank 0: {tmp_path}: another job saves here \(process {os.getppid()} "
        ):
            train_and_save(communicator, tmp_path, 1, EVERY_SECOND)

    run_world(RANKS, job)
    assert [path.name for path in tmp_path.iterdir()] == [MARK]
    assert (tmp_path / MARK).read_bytes() == theirs


@pytest.mark.parametrize("on_error", ["raise", "warn"])
def test_a_training_that_another_job_has_taken_for_dead_saves_there_no_more(tmp_path, capfd, on_error) -> None:
    def job(communicator):
        def taken():
            if communicator.rank == 0:
                of_others(tmp_path)

        refused = pytest.raises(CheckpointError, match="another job saves here")
        with refused if on_error == "raise" else nullcontext():
            train_and_save(communicator, tmp_path, 2, CheckpointConfig(2, on_error=on_error), At(3, taken))

    run_world(RANKS, job)
    assert committed(tmp_path) == ALL[:1]
    assert (on_error == "warn") == ("training goes on: rank 0" in capfd.readouterr().out)


def test_a_mark_that_cannot_be_written_ends_nothing(tmp_path, monkeypatch) -> None:
    def full(claim):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FolderClaim, "hold", full)
    run_world(RANKS, train_and_save, tmp_path, 2, EVERY_SECOND)
    assert committed(tmp_path) == ALL


def test_two_callbacks_and_two_trainings_of_a_job_share_its_folder(tmp_path) -> None:
    def job(communicator):
        model = make_model()
        savers = [ModelCheckpoint(name, str(tmp_path), EVERY_SECOND) for name in ("dense", "other")]
        model.train(1, make_dataset(), savers, dataset_sink_mode=False)
        model.train(2, make_dataset(), savers, dataset_sink_mode=False)

    run_world(RANKS, job)
    assert [name for name in committed(tmp_path) if name.startswith("other")]
    assert marks(tmp_path) == []
