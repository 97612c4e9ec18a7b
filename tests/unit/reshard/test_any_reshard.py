"""Any state moves from any layouts to any others, by every executor and in both modes, as NumPy slices it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpiparallel.communication.threads import run_world
from tests.conformance.resharding.reshard_cases import EXECUTORS, MODES, Case, Seeded, any_case, cases
from tests.conformance.resharding.reshard_claims import (
    CLAIMS,
    Claim,
    assert_each_element_is_delivered_once,
    bytes_moved,
    plans_of,
)
from tests.conformance.scratch_meter import measured_scratch
from tests.reliability.counts import count

# Six ways: 360 moves, over 2,000 in make soak.
CASES_OF_EACH = count(340, 60)
every_case = settings(max_examples=CASES_OF_EACH)


def check(case: Case, claim: Claim) -> None:
    plans = plans_of(case)
    assert_each_element_is_delivered_once(case, plans)
    with measured_scratch() as scratch:
        run_world(case.size, claim, case, bytes_moved(case, plans), hosts=case.hosts)
    assert max(scratch.values(), default=0) <= case.options["scratch_bytes"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("executor", EXECUTORS)
@every_case
@given(data=st.data())
def test_every_rank_gets_the_slices_that_numpy_gives(executor: str, mode: str, data: st.DataObject) -> None:
    case = data.draw(cases(executor=executor, mode=mode))
    check(case, data.draw(st.sampled_from(CLAIMS)))


@settings(every_case, max_examples=CASES_OF_EACH // 10)
@given(case=cases())
def test_every_rank_gets_them_from_the_executor_that_chose_itself(case: Case) -> None:
    check(case, CLAIMS[0])


def test_seeded_moves_are_the_same_on_every_rank() -> None:
    drawn = run_world(2, lambda communicator: [repr(any_case(Seeded(seed))) for seed in range(20)])
    assert drawn[0] == drawn[1]
