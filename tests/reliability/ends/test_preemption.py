"""A training that is preempted at any moment, and started again until it is done, ends to the bit as one left alone."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.catalogue import catalogue
from tests.conformance.mpi_launcher import library
from tests.reliability.counts import count, record
from tests.reliability.mpi_job import MpiJob
from tests.reliability.ranks.preempted_ranks import KINDS, STEPS

pytestmark = pytest.mark.mpi

MODULE = "tests.reliability.ranks.preempted_ranks"
REQUEUE = 85
LONGEST_PAUSE = 0.05
SHARE_OF_STARTS = 0.3
# Each library tries each way to train in a soak; each way is tried by one of them in every test run.
SHARE_OF_TESTS = {
    "saved at once": "openmpi",
    "saved by a thread": "mpich",
    "spares wait": "mpich",
    "in stages": "openmpi",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_preempted_training_is_saved_at_one_step_and_goes_on_as_if_nothing_had_been(
    interpreter: Path, kind: str, quick_folder: Path
) -> None:
    tries = count(50, 1 if SHARE_OF_TESTS.get(kind) == library(interpreter) else 0)
    if not tries:
        pytest.skip("only make soak tries all ways to train with each library")
    chance = random.Random(f"{library(interpreter)} {kind}")
    notes = {name: quick_folder / name for name in ("left alone", "preempted")}
    for folder in notes.values():
        folder.mkdir(parents=True)
    with job_of(interpreter, notes["left alone"], 0, kind) as job:
        life = seconds_of(job)
    figures: Counter[str] = Counter()
    while figures["signals"] < tries:
        for old in notes["preempted"].glob("*_*"):
            old.unlink()
        figures += lives(interpreter, notes, kind, chance, life, tries - figures["signals"])
        figures["trainings"] += 1
    record(f"training preempted: {library(interpreter)}, {kind}", **figures, bits_different=0)


def ranks_of(kind: str) -> tuple[int, int]:
    """Return how many ranks a job has, and how many of them train."""
    return {"spares wait": (4, 2), "in stages": (4, 4)}.get(kind, (2, 2))


def job_of(interpreter: Path, notes: Path, training: int, kind: str) -> MpiJob:
    return MpiJob(interpreter, ranks_of(kind)[0], MODULE, notes, notes / f"checkpoints {training}", kind)


def seconds_of(job: MpiJob) -> float:
    """Let a job train to its end; return how long it trains."""
    assert job.wait_for((job.notes / "going").exists), job.output()
    began = time.monotonic()
    assert job.end() == 0, job.output()
    return time.monotonic() - began


def lives(
    interpreter: Path, notes: dict[str, Path], kind: str, chance: random.Random, life: float, most: int
) -> Counter[str]:
    """Train to the end with up to ``most`` signals; see that each life ends as is promised."""
    figures: Counter[str] = Counter()
    told = most
    folder = notes["preempted"]
    training = len(list(folder.glob("checkpoints *")))
    while True:
        before = steps_saved(folder / f"checkpoints {training}")
        (folder / "going").unlink(missing_ok=True)
        with job_of(interpreter, folder, training, kind) as job:
            begun = job.wait_for_ranks()
            if told:
                # More often while it trains than while it starts.
                told -= 1
                begun = begun and (chance.random() < SHARE_OF_STARTS or job.wait_for((folder / "going").exists))
                time.sleep(chance.uniform(0.0, life))
                tell(job, chance)
                figures["signals"] += 1
            status = job.end()
            assert begun, job.output()
            assert status in (0, REQUEUE), job.output()
        ends = {(folder / f"ended_{rank}").read_text() for rank in range(ranks_of(kind)[1])}
        assert len(ends) == 1, f"ranks end at different steps, or with different codes: {ends}"
        code, step = map(int, ends.pop().split())
        assert code == status
        assert {(folder / f"ended_{rank}").read_text().split()[0] for rank in range(ranks_of(kind)[0])} == {str(code)}
        saved = steps_saved(folder / f"checkpoints {training}")
        assert step in saved
        check_losses(notes, kind, step)
        if status == 0:
            assert step == STEPS
            assert arrays_of(folder) == arrays_of(notes["left alone"])
            return figures
        assert step > max(before, default=0), "a life makes a step at least"
        figures["preempted"] += 1


def tell(job: MpiJob, chance: random.Random) -> None:
    """Send the signal to the launcher, to all ranks or some, once or twice."""
    for _ in range(chance.choice((1, 1, 2))):
        if not job.running:
            return
        victims = chance.choice(("launcher", "all", "some", "one"))
        if victims == "launcher":
            job.tell(signal.SIGUSR1)
        else:
            most = {"all": len(job.pids), "some": chance.randrange(1, len(job.pids)), "one": 1}
            job.tell(signal.SIGUSR1, chance.sample(job.pids, most[victims]))
        time.sleep(chance.uniform(0.0, LONGEST_PAUSE))


def steps_saved(folder: Path) -> set[int]:
    """Return the steps of which a checkpoint is committed."""
    found = catalogue(folder) if folder.exists() else []
    return {entry.manifest.training["step"] for entry in found if entry.manifest is not None}


def check_losses(notes: dict[str, Path], kind: str, last: int) -> None:
    """See that each step that was made, up to the last, has the loss of the training that was left alone, once."""
    for rank in range(ranks_of(kind)[1]):
        expected, found = (
            [tuple(line.split()) for line in (folder / f"losses_{rank}").read_text().splitlines()]
            for folder in notes.values()
        )
        assert len(expected) == STEPS
        assert found == expected[:last]


def arrays_of(notes: Path) -> dict[str, bytes]:
    """Return the parameters and moments of all ranks, to the bit."""
    arrays = {}
    for path in sorted(notes.glob("state_*")):
        with np.load(path) as found:
            arrays |= {f"{path.stem} {name}": found[name].tobytes() for name in found}
    assert len(arrays) > 8
    return arrays
