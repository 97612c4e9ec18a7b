"""A sample of the operators on real MPI ranks, under both MPIs where both are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.testing.case_strategies import strategies_of
from tests.conformance.cases.operator_cases import CASES
from tests.mpi.parallel.operator_ranks import SAMPLE

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("size", [pytest.param(3, marks=pytest.mark.sample), 4])
def test_operators_on_mpi_ranks_equal_one_rank_under_every_strategy(mpi_run, size) -> None:
    sampled = [case for case in CASES if case.name in SAMPLE]
    assert len(sampled) == len(SAMPLE)
    strategies = sum(len(list(strategies_of(case, size))) for case in sampled)
    output = mpi_run(size, Path(__file__).with_name("operator_ranks.py"))
    for rank in range(size):
        assert f"rank {rank} of {size} holds {strategies} strategies" in output
