"""Any state moves from any layouts to any others, by every executor and in both modes, as NumPy slices it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from tests.conformance.reshard_cases import EXECUTORS, MODES, Case, Seeded, any_case, cases
from tests.conformance.reshard_claims import (
    assert_each_element_is_delivered_once,
    bytes_moved,
    moves_as_numpy_slices,
    moves_there_and_back,
    plans_of,
)
from tests.conformance.scratch_meter import measured_scratch

# Eight combinations of executor and mode: over 2,000 moves.
CASES_OF_EACH = 260


def check(case: Case) -> None:
    plans = plans_of(case)
    assert_each_element_is_delivered_once(case, plans)
    moved = bytes_moved(case, plans)

    def on_each_rank(communicator: Communicator) -> None:
        moves_as_numpy_slices(communicator, case)
        moves_there_and_back(communicator, case, moved)

    with measured_scratch() as scratch:
        run_world(case.size, on_each_rank, hosts=case.hosts)
    assert max(scratch.values(), default=0) <= case.options["scratch_bytes"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("executor", EXECUTORS)
@settings(max_examples=CASES_OF_EACH, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_rank_gets_the_slices_that_numpy_gives(executor: str, mode: str, data: st.DataObject) -> None:
    check(data.draw(cases(executor=executor, mode=mode)))


def test_seeded_moves_are_the_same_on_every_rank() -> None:
    drawn = run_world(2, lambda communicator: [repr(any_case(Seeded(seed))) for seed in range(20)])
    assert drawn[0] == drawn[1]
