"""Ranks of real MPI jobs, killed at any moment of saving after saving, lose nothing that they were told to be saved."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import library
from tests.reliability import acknowledgements, states
from tests.reliability.counts import count, record
from tests.reliability.mpi_job import MpiJob
from tests.reliability.subject import steps_in, wrong_arrays

pytestmark = pytest.mark.mpi

KEPT = 4
SAVES = 4
LONGEST_WAIT = 0.1
# Of all kills of a library, how many are of a job of so many ranks, and how many where every test is run.
SIZES = {2: (250, 7), 4: (150, 5), 8: (100, 0)}
KINDS = {"one rank": (1.0, 1.0), "all ranks and the launcher": (0.2, 0.3)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("victims", KINDS)
def test_no_kill_loses_a_checkpoint_that_was_acknowledged(
    interpreter: Path, size: int, victims: str, quick_folder: Path
) -> None:
    shares = KINDS[victims]
    kills = count(round(SIZES[size][0] * shares[0]), round(SIZES[size][1] * shares[1]))
    if not kills:
        pytest.skip("only make soak kills jobs of so many ranks")
    chance = random.Random(f"{library(interpreter)} {size} {victims}")
    # What a process has written outlives its end on any file system.
    notes, folder = quick_folder.with_name("notes"), quick_folder
    notes.mkdir()
    folder.mkdir()
    figures: Counter[str] = Counter()
    for _ in range(kills):
        figures += _life(
            MpiJob(interpreter, size, "tests.reliability.ranks.saving_ranks", notes, folder, KEPT), victims, chance
        )
        figures += _checked(notes, folder, size)
    record(
        f"{victims} killed while saving: {library(interpreter)}, {size} ranks",
        kills=kills,
        acknowledged=len(acknowledgements.read(notes).steps),
        loaded=figures["loaded"],
        lost=0,
        left_running=figures["left_running"],
    )


def _life(job: MpiJob, victims: str, chance: random.Random) -> Counter[str]:
    """Let the job save a few times, kill it or one rank of it, and see it end."""
    going = job.notes / "going"
    going.unlink(missing_ok=True)
    with job:
        # Where the launcher dies too, it does so while the ranks start and load as well.
        saving = victims == "one rank" or chance.random() < 0.5
        enough = _saves(job.notes) + chance.randrange(SAVES)
        begun = job.wait_for_ranks() and (not saving or job.wait_for(going.exists))
        begun = begun and (not saving or job.wait_for(lambda: _saves(job.notes) >= enough))
        assert begun, f"the job ended before it was killed:\n{job.output()}"
        time.sleep(chance.uniform(0.0, LONGEST_WAIT))
        assert job.running, f"the job ended before it was killed:\n{job.output()}"
        if victims == "one rank":
            job.kill(chance.choice(job.pids))
            assert job.end() != 0
        else:
            job.kill_all()
            job.end()
        assert "WRONG" not in job.output(), job.output()
        return Counter(left_running=job.leftover)


def _saves(notes: Path) -> int:
    """How many checkpoints have been acknowledged."""
    return len(acknowledgements.read(notes).steps)


def _checked(notes: Path, folder: Path, size: int) -> Counter[str]:
    """See that all that was acknowledged, and all else that counts as a checkpoint, loads to the bit."""
    said, there = acknowledgements.read(notes), steps_in(folder)
    newest = max(there, default=0)
    assert newest >= max(said.steps, default=0)
    missing = set(said.to_be_there(newest)) - set(there)
    assert not missing, f"steps {sorted(missing)} were acknowledged and are gone; there are {sorted(there)}"
    for step, manifest in there.items():
        assert not wrong_arrays(folder, manifest, size, states.replicated(size)), f"step {step} is wrong"
    return Counter(loaded=len(there))
