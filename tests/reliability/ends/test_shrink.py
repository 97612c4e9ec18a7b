"""One of 8 ranks is killed at a random collective: the others go on with the right losses, and soon."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.conformance.mpi_launcher import library
from tests.conformance.trainings.surviving_job import run_surviving
from tests.mpi.train.shrink_ranks import STEPS
from tests.mpi.train.test_shrink import GOES_ON, PROGRAM, losses, undisturbed
from tests.reliability.counts import count, record

pytestmark = pytest.mark.mpi

RANKS = 8
# What a rank does before its first step, and how many collectives an undisturbed run has.
CALLS = {"replicas": (20, 105), "shards": (20, 270)}


def test_a_training_goes_on_without_a_rank_killed_anywhere(interpreter: Path, tmp_path: Path) -> None:
    if library(interpreter) != "openmpi":
        pytest.skip("MPICH ends the job when a rank dies")
    kills = count(20, 2)
    draw, seconds, from_replicas = np.random.default_rng(11), [], 0
    for run in range(kills):
        kind = ("replicas", "shards")[run % 2]
        dead, call = int(draw.integers(RANKS)), int(draw.integers(*CALLS[kind]))
        moment = ("at", "in")[int(draw.integers(2))]
        notes = tmp_path / str(run)
        notes.mkdir()
        folder = [notes / "checkpoints"] if kind == "shards" else []
        chaos = f"kill@{dead}:{call}:{moment}"
        code, output = run_surviving(interpreter, RANKS, PROGRAM, kind, notes, *folder, chaos=chaos)
        assert code == 0, f"{kind}, {chaos}:\n{output}"
        assert len(GOES_ON.findall(output)) == 1, f"{kind}, {chaos}:\n{output}"
        from_replicas += "slices of replicas" in output
        wanted = undisturbed("replicas")
        for number in set(range(RANKS)) - {dead}:
            by_step = losses(notes, number)
            np.testing.assert_allclose([by_step[step] for step in wanted], list(wanted.values()), rtol=1e-9)
            assert len(by_step) == STEPS
        seconds.append(max(map(_longest_pause, sorted(notes.glob("losses_*")))))
    record(
        "rank of 8 killed at a random collective, under shrink: openmpi",
        kills=kills,
        went_on=kills,
        from_replicas=from_replicas,
        milliseconds_from_kill_to_next_step_at_most=round(1000 * max(seconds)),
        milliseconds_in_the_median=round(1000 * float(np.median(seconds))),
    )


def _longest_pause(path: Path) -> float:
    """Return the longest time between the ends of two steps: a kill, and all until the next step has ended."""
    times = [float(line.split()[2]) for line in path.read_text().splitlines()]
    return max(after - before for before, after in pairwise(times))
