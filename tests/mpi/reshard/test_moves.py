"""State that moves between real ranks arrives as NumPy slices it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.resharding.reshard_cases import EXECUTORS, MODES
from tests.mpi.reshard.any_reshard_ranks import CASES_OF_EACH

pytestmark = pytest.mark.mpi

RANKS = 6


def test_any_state_moves_between_mpi_ranks_as_numpy_slices_it(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(RANKS, "tests.mpi.reshard.any_reshard_ranks")
    moves = CASES_OF_EACH * len(EXECUTORS) * len(MODES)
    assert moves > 200
    for rank in range(RANKS):
        assert f"rank {rank} agrees with NumPy after {moves} moves" in output


@pytest.mark.parametrize(("executor", "mode"), [("packed", "safe"), ("datatypes", "bounded"), ("shared", "safe")])
def test_more_than_two_to_the_31_bytes_arrive_as_they_were(
    mpi_run: Callable[..., str], executor: str, mode: str
) -> None:
    output = mpi_run(2, "tests.mpi.reshard.large_reshard_ranks", executor, mode)
    assert "2147491842 bytes arrived as they were" in output


@pytest.mark.sample
def test_state_moves_between_mpi_ranks_as_numpy_slices_it(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(4, "tests.mpi.reshard.live_ranks")
    for rank in range(4):
        assert f"rank {rank} holds what NumPy gives" in output
