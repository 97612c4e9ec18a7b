from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mpi.checkpoint.any_checkpoint_ranks import CASES

pytestmark = pytest.mark.mpi

RANKS = 6


@pytest.mark.sample
def test_any_checkpoint_is_loaded_by_any_layout_on_mpi_ranks(mpi_run: Callable[..., str], tmp_path: Path) -> None:
    output = mpi_run(RANKS, "tests.mpi.checkpoint.any_checkpoint_ranks", tmp_path)
    for rank in range(RANKS):
        assert f"rank {rank} loads what NumPy slices of {CASES} checkpoints" in output
