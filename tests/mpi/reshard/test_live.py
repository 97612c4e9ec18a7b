from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.mpi


@pytest.mark.sample
def test_state_moves_between_mpi_ranks_as_numpy_slices_it(mpi_run: Callable[..., str]) -> None:
    output = mpi_run(4, "tests.mpi.reshard.live_ranks")
    for rank in range(4):
        assert f"rank {rank} holds what NumPy gives" in output
