"""Each operator of the table, under every strategy that is legal on 1 to 8 ranks."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.communication.threads import alone, run_world
from tests.conformance.operator_cases import CASES, OperatorCase
from tests.conformance.operator_strategies import RANK_COUNTS, LaidOutCase, batches, run_case, strategies_of


@pytest.mark.parametrize("case", [case for case in CASES if case.every_strategy], ids=lambda case: case.name)
def test_value_and_gradient_are_those_of_one_rank_under_every_strategy(case: OperatorCase) -> None:
    expected = run_case(alone(), case, None)
    for ranks in RANK_COUNTS:
        strategies = list(strategies_of(case, ranks))
        assert strategies, f"no strategy is legal on {ranks} ranks"
        # What has parameters is not for several ranks: each places its own.
        shared = None if case.build().updates else list(_laid_out(case, strategies, ranks))
        of_ranks = run_world(ranks, _run_all, case, strategies, shared)
        for strategy, results in zip(strategies, zip(*of_ranks, strict=True), strict=True):
            for index, (found, wanted) in enumerate(zip(zip(*results, strict=True), expected, strict=True)):
                everywhere, message = np.broadcast_to(wanted, (ranks, *wanted.shape)), f"result {index} of {strategy}"
                np.testing.assert_allclose(np.stack(found), everywhere, 1e-11, 1e-12, err_msg=f"{message}, by rank")


def _laid_out(case, strategies, ranks):
    return (LaidOutCase.of(case, batch, ranks) for batch in batches(case, strategies))


def _run_all(communicator, case, strategies, shared):
    laid_out = shared or _laid_out(case, strategies, communicator.size)
    return [results for one in laid_out for results in one.run(communicator)]
