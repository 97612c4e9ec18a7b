"""Each operator of the table in float16 and bfloat16 under its legal strategies, against one rank in float64.

Some strategies are drawn of those that have many; ``make soak`` tries all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.threads import alone
from mpiparallel.dtype import bfloat16
from mpiparallel.testing.case_strategies import results_by_strategy, run_case
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES
from tests.reliability.counts import share

RANKS, MOST = ((2, 3, 4, 8), None) if share() else ((4,), 2)
ROUNDING = {np.dtype(np.float16): 4e-3, np.dtype(bfloat16): 3.2e-2}
"""Eight units in the last place of the largest number: each rank rounds its term of a sum, then the sum is rounded."""


def largest(*arrays: Any) -> float:
    """Return the largest finite number of the arrays of floats."""
    floats = [one[np.isfinite(one)] for one in map(np.asarray, arrays) if one.dtype.kind == "f"]
    return max(float(np.abs(one).max(initial=1e-3)) for one in floats)


def in_floats(case: OperatorCase, narrow: Any, dtype: Any) -> OperatorCase:
    """Return the case on numbers of ``narrow``, held in ``dtype``."""
    arrays = map(np.asarray, case.inputs)
    with np.errstate(over="ignore"):
        inputs = [one.astype(narrow).astype(dtype) if one.dtype.kind == "f" else one for one in arrays]
    return replace(case, inputs=tuple(inputs))


@pytest.mark.parametrize("narrow", ROUNDING, ids=str)
@pytest.mark.parametrize("case", [case for case in CASES if case.every_strategy], ids=lambda case: case.name)
def test_value_and_gradient_of_16_bits_are_within_their_rounding_under_every_strategy(
    case: OperatorCase, narrow: Any
) -> None:
    expected = run_case(alone(), in_floats(case, narrow, np.float64), None)
    for ranks in RANKS:
        for strategy, results in results_by_strategy(in_floats(case, narrow, narrow), ranks, MOST):
            for index, (found, wanted) in enumerate(zip(results, expected, strict=True)):
                message = f"{case.name}: result {index} of {strategy}, by rank"
                everywhere = np.broadcast_to(wanted, (ranks, *wanted.shape))
                if wanted.dtype.kind != "f":
                    np.testing.assert_array_equal(found, everywhere, err_msg=message)
                    continue
                # A sum may be nearly zero where its terms, which are rounded, are not.
                terms = case.inputs if "Reduce" in case.name else ()
                close = ROUNDING[narrow] * largest(wanted, *terms)
                np.testing.assert_allclose(found.astype(np.float64), everywhere, 0, close, err_msg=message)
