"""Worlds of real ranks that change: processes join, and survivors of deaths meet again, whatever they were in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import library
from tests.conformance.trainings.surviving_job import run_surviving

pytestmark = pytest.mark.mpi

GROWTH = "tests.mpi.communication.spawning_ranks"
SURVIVAL = "tests.mpi.communication.survivor_ranks"


@pytest.mark.parametrize("program", [GROWTH, Path(__file__).parent / "spawning_ranks.py"], ids=["module", "script"])
def test_started_processes_join_and_old_ranks_keep_their_numbers(mpi_run: Callable[..., str], program: str) -> None:
    output = mpi_run(2, program, 2)
    for rank in range(5):
        assert f"rank {rank} of 5 is through, {'old' if rank < 2 else 'new'}" in output


def test_one_rank_can_grow(mpi_run: Callable[..., str]) -> None:
    assert mpi_run(1, GROWTH, 1).count("is through") == 5


def test_an_uncaught_exception_on_a_rank_that_joined_ends_the_job(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(2, GROWTH, 2, "fail", fails=True)
    assert "ValueError: the newcomer has no data" in output
    assert "is through" not in output


def test_processes_that_end_before_they_join_end_the_job(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(2, GROWTH, 2, "early", fails=True)
    assert "2 processes were to join, but did not call mpiparallel.communication.init() within 3 s" in output


def test_without_a_launcher_growth_is_refused_with_what_to_do(mpi_run: Callable[..., str]) -> None:
    assert "rank 0 is refused: rank 0: grow: this process was started without a launcher" in mpi_run(0, GROWTH, 1)


def test_ranks_that_ask_for_unlike_numbers_are_refused_alike(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(2, GROWTH, 2, "unlike")
    for rank in range(2):
        assert f"rank {rank} is refused: grow: ranks ask for 1 to 2 processes" in output


@pytest.mark.parametrize("seed", [1, 4])
def test_survivors_of_several_deaths_meet_and_go_on_in_new_groups(mpi_python: Path, seed: int) -> None:
    if library(mpi_python) != "openmpi":
        pytest.skip("MPICH ends the job when a rank dies")
    code, output = run_surviving(mpi_python, 8, SURVIVAL, seed)
    # Ranks whose collective comes after the end of the work live on.
    assert (code, output.count("ends among") >= 4) == (0, True), output
