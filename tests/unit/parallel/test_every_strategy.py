"""Each operator of the table, under every strategy that is legal on 1 to 4 ranks, and on 6 and 8.

On 6 and 8 ranks some are drawn of those that have many; ``make soak`` tries all of them.
"""

from __future__ import annotations

import pytest

from mpiparallel.testing.case_strategies import check_strategies_of
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES
from tests.reliability.counts import share

MOST = None if share() else 6
"""How many are drawn on each of the larger numbers of ranks."""


@pytest.mark.parametrize("case", [case for case in CASES if case.every_strategy], ids=lambda case: case.name)
def test_value_and_gradient_are_those_of_one_rank_under_every_strategy(case: OperatorCase) -> None:
    check_strategies_of(case, (1, 2, 3, 4), rtol=1e-11, atol=1e-12)
    check_strategies_of(case, (6, 8), rtol=1e-11, atol=1e-12, most=MOST)
