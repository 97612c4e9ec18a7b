"""Each operator of the table, under every strategy that is legal on 1 to 8 ranks."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.communication.threads import alone, run_world
from tests.conformance.operator_cases import CASES, OperatorCase
from tests.conformance.operator_strategies import RANK_COUNTS, legal_strategies, run_case


@pytest.mark.parametrize("case", [case for case in CASES if case.every_strategy], ids=lambda case: case.name)
def test_value_and_gradient_are_those_of_one_rank_under_every_strategy(case: OperatorCase) -> None:
    expected = run_case(alone(), case, None)
    for ranks in RANK_COUNTS:
        strategies = list(legal_strategies(case, ranks))
        assert strategies, f"no strategy is legal on {ranks} ranks"
        for found in zip(*run_world(ranks, _run_all, case, strategies), strict=True):
            for strategy, results in found:
                for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
                    np.testing.assert_allclose(
                        result, wanted, 1e-11, 1e-12, err_msg=f"result {index} of {strategy} on {ranks} ranks"
                    )


def _run_all(communicator, case, strategies):
    return [(strategy, run_case(communicator, case, strategy)) for strategy in strategies]
