"""A training that is killed at any moment and resumed until it is done ends, to the bit, as one that nobody killed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest

from tests.conformance.mpi_launcher import library
from tests.reliability.counts import count, record
from tests.reliability.mpi_job import MpiJob
from tests.reliability.ranks.training_ranks import BATCH, EPOCHS, ROWS

pytestmark = pytest.mark.mpi

RANKS = 2
LONGEST_LIFE = 0.6
MODULE = "tests.reliability.ranks.training_ranks"


@pytest.mark.parametrize("seed", [1, 2], ids=["saved at once", "saved by a thread"])
def test_a_killed_training_ends_as_if_nothing_had_been(interpreter: Path, seed: int, quick_folder: Path) -> None:
    # Every test run tries each library once.
    kills = count(50, 2 if (library(interpreter) == "openmpi") == (seed == 2) else 0)
    if not kills:
        pytest.skip("only make soak tries both ways of saving with each library")
    chance = random.Random(f"{library(interpreter)} {seed}")
    left_alone, killed = quick_folder / "left alone", quick_folder / "killed"
    for notes in (left_alone, killed):
        notes.mkdir(parents=True)
    finish(MpiJob(interpreter, RANKS, MODULE, left_alone, left_alone / "checkpoints", seed))
    deaths, trainings = 0, 0
    while deaths < kills:
        # Each life saves something, so no training takes more lives than it has checkpoints.
        trainings += 1
        for old in killed.glob("*_*"):
            old.unlink()
        folder = killed / f"checkpoints {trainings}"
        deaths += lives(interpreter, killed, folder, seed, chance, kills - deaths)
        check_equal(left_alone, killed)
    record(
        f"training killed and resumed: {library(interpreter)}, {'saved by a thread' if seed == 2 else 'saved at once'}",
        kills=deaths,
        trainings=trainings,
        steps=EPOCHS * ROWS // BATCH * trainings,
        bits_different=0,
    )


def lives(interpreter: Path, notes: Path, folder: Path, seed: int, chance: random.Random, kills: int) -> int:
    """Train to the end, with up to so many kills; return how many there were."""
    for number in range(kills):
        job = MpiJob(interpreter, RANKS, MODULE, notes, folder, seed)
        (notes / "going").unlink(missing_ok=True)
        with job:
            assert job.wait_for((notes / "going").exists), f"no training:\n{job.output()}"
            time.sleep(chance.uniform(0.0, LONGEST_LIFE))
            if not job.running:
                assert job.end() == 0, job.output()
                return number
            job.kill(chance.choice(job.pids))
            job.end()
        if len(list(notes.glob("state_*"))) == RANKS:
            return number + 1
    finish(MpiJob(interpreter, RANKS, MODULE, notes, folder, seed))
    return kills


def finish(job: MpiJob) -> None:
    """Let a job train to its end."""
    with job:
        assert job.end() == 0, job.output()


def check_equal(left_alone: Path, killed: Path, ranks: int = RANKS, steps: int = EPOCHS * ROWS // BATCH) -> None:
    """See that every loss that was ever logged, and what each rank has in the end, are the same to the bit."""
    for rank in range(ranks):
        expected = dict(line.split() for line in (left_alone / f"losses_{rank}").read_text().splitlines())
        # A step that was taken twice, because the kill came before it was saved, has the same loss twice.
        logged = {tuple(line.split()) for line in (killed / f"losses_{rank}").read_text().splitlines()}
        assert len(expected) == steps
        assert logged == set(expected.items())
        with np.load(left_alone / f"state_{rank}.npz") as truth, np.load(killed / f"state_{rank}.npz") as found:
            assert {name: truth[name].tobytes() for name in truth} == {name: found[name].tobytes() for name in found}
            assert len(truth.files) > 4
