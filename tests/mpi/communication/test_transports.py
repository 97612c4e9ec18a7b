"""Arrays of devices travel between real MPI ranks as between threads; deaths amid a call are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import library
from tests.conformance.trainings.surviving_job import run_surviving

pytestmark = pytest.mark.mpi

RANKS = "tests.mpi.communication.transport_ranks"


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.sample), 4])
def test_every_way_between_devices_moves_what_numpy_says(
    mpi_run: Callable[..., str], tmp_path: Path, size: int
) -> None:
    output = mpi_run(size, RANKS, tmp_path)
    for rank in range(size):
        assert f"rank {rank} of {size} is through" in output


@pytest.mark.parametrize("way", ["nccl", "ipc"])
def test_survivors_of_a_death_amid_a_call_between_devices_are_told(mpi_python: Path, tmp_path: Path, way: str) -> None:
    if library(mpi_python) != "openmpi":
        pytest.skip("MPICH ends the job when a rank dies")
    _, output = run_surviving(mpi_python, 3, RANKS, tmp_path, "die", way)
    assert output.count("is told that a rank has died") == 2, output
