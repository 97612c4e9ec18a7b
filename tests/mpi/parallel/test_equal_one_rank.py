"""Real ranks compute what one rank does, under both MPIs where both are at hand: operators, and pipelines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.communication.threads import run_world
from mpiparallel.testing.case_strategies import strategies_of
from tests.conformance.cases.operator_cases import CASES
from tests.mpi.parallel.operator_ranks import SAMPLE
from tests.unit.train.staged_networks import Case, trained

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("size", [pytest.param(3, marks=pytest.mark.sample), 4])
def test_operators_on_mpi_ranks_equal_one_rank_under_every_strategy(mpi_run, size) -> None:
    sampled = [case for case in CASES if case.name in SAMPLE]
    assert len(sampled) == len(SAMPLE)
    strategies = sum(len(list(strategies_of(case, size))) for case in sampled)
    output = mpi_run(size, Path(__file__).with_name("operator_ranks.py"))
    for rank in range(size):
        assert f"rank {rank} of {size} holds {strategies} strategies" in output


@pytest.mark.parametrize(
    ("schedule", "stages"),
    [
        pytest.param("zb_h1", "000111", marks=pytest.mark.sample),
        pytest.param("gpipe", "000111", marks=pytest.mark.sample),
        # In a V, messages overtake each other on their way from one stage to the other.
        ("zb_v", "001100"),
        ("interleaved_1f1b", "001011"),
    ],
)
def test_four_ranks_in_two_stages_have_the_losses_of_one_device(
    mpi_run: Callable[..., str], schedule: str, stages: str
) -> None:
    ((losses, _),) = run_world(1, trained, Case(stages=(0,) * 6, micro_size=0, dropout=0.25, tied=True))
    lines = [
        line
        for line in mpi_run(4, "tests.mpi.parallel.pipeline_ranks", schedule, stages).splitlines()
        if " holds " in line
    ]
    assert len(lines) == 4
    for line in lines:
        np.testing.assert_allclose([float(loss) for loss in line.split(": ")[1].split()], losses, rtol=0, atol=1e-9)
