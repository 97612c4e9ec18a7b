"""Each operator of the table, under every strategy that is legal on 1 to 8 ranks."""

from __future__ import annotations

import pytest

from mpiparallel.testing.case_strategies import RANK_COUNTS, check_strategies_of
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES


@pytest.mark.parametrize("case", [case for case in CASES if case.every_strategy], ids=lambda case: case.name)
def test_value_and_gradient_are_those_of_one_rank_under_every_strategy(case: OperatorCase) -> None:
    check_strategies_of(case, RANK_COUNTS, rtol=1e-11, atol=1e-12)
