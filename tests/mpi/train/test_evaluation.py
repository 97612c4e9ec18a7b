"""Evaluation on real ranks: processes have their sets of metrics in an order of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi


def test_ranks_with_unequal_shares_measure_what_numpy_does(mpi_run) -> None:
    output = mpi_run(3, Path(__file__).with_name("evaluation_ranks.py"))
    for rank in range(3):
        assert f"rank {rank} evaluated" in output
