"""Which rank is the cause where one has an error of communication and another ends a moment later."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.watching.rank_outcome import RankOutcome, first_cause


@pytest.mark.parametrize(
    ("error", "later", "cause"),
    [
        ("CommunicationError: all_reduce: MPI_ERR_PROC_FAILED", 0.0, 2),
        ("CommunicationError: all_reduce: MPI_ERR_PROC_FAILED", 0.9, 2),
        ("CommunicationError: all_reduce: MPI_ERR_PROC_FAILED", 1.1, 0),
        ("ValueError: of its own", 0.9, 0),
    ],
)
def test_an_error_of_communication_is_the_consequence_of_what_ends_within_a_second(
    error: str, later: float, cause: int, tmp_path: Path
) -> None:
    registry = RankRegistry(4)
    for rank in range(4):
        registry.call(rank, rank, "n0", 100 + rank, 100 + rank)
    registry.entries[0].failure = Failure(0, 1000.0, error, "", 1)
    registry.lose(2)
    registry.entries[2].lost_at = 1000.0 + later
    found = first_cause([RankOutcome.of(RankFolder(tmp_path, one.rank), one) for one in registry], 2000.0)
    assert found is not None
    assert found.rank == cause
