"""Ranks that meet again after others have died, whatever they were in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import library
from tests.conformance.trainings.surviving_job import run_surviving

pytestmark = pytest.mark.mpi

PROGRAM = "tests.mpi.communication.survivor_ranks"


@pytest.mark.parametrize("seed", [1, 4])
def test_survivors_of_several_deaths_meet_and_go_on_in_new_groups(mpi_python: Path, seed: int) -> None:
    if library(mpi_python) != "openmpi":
        pytest.skip("MPICH ends the job when a rank dies")
    code, output = run_surviving(mpi_python, 8, PROGRAM, seed)
    # Ranks whose collective comes after the end of the work live on.
    assert (code, output.count("ends among") >= 4) == (0, True), output
