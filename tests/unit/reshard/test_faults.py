"""What ends when ranks disagree or one of them fails: all of them, and none waits."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CommunicationError
from mpiparallel.reshard import reshard
from tests.conformance.meddling_communicator import Meddling
from tests.conformance.resharding.faulty_moves import VICTIM
from tests.conformance.resharding.reshard_cases import EXECUTORS
from tests.conformance.resharding.reshard_claims import assert_state, refusal
from tests.conformance.resharding.reshard_states import RANKS, state


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "other",
    [{"mode": "bounded"}, {"scratch_bytes": 8192}, {"wave_bytes": 7}, {"verify": False}, {"digest": True}, {}],
    ids=str,
)
def test_ranks_with_other_options_layouts_or_dtypes_end_the_move_before_a_byte_moves(
    executor: str, other: dict[str, Any]
) -> None:
    case = state(executor=executor)
    calls: list[str] = []

    def on_each_rank(communicator: Communicator) -> str:
        options = {**case.options, **(other if communicator.rank == VICTIM else {})}
        target = case.source if communicator.rank == VICTIM and not other else case.target
        arrays = case.given(communicator.rank)
        meddling: Any = Meddling(communicator, calls.append)
        message = refusal(lambda: reshard(arrays, case.source, target, meddling, **options))
        assert_state(case, arrays, case.source, communicator.rank)
        return message

    messages = run_world(RANKS, on_each_rank)
    assert len(set(messages)) == 1
    assert f"ranks [{VICTIM}] were given other layouts or options than rank 0; nothing was moved" in messages[0]
    assert not {"exchange", "all_to_all_v", "strided_exchange", "share"} & set(calls)


@pytest.mark.parametrize("when", ["before", "inside"])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_error_in_the_program_of_one_rank_ends_all_ranks_and_none_waits(executor: str, when: str) -> None:
    case = state(executor=executor)

    def before(call: str) -> None:
        if when == "before" or call in ("exchange", "strided run", "share"):
            raise ZeroDivisionError

    def on_each_rank(communicator: Communicator) -> str:
        meddling: Any = Meddling(communicator, before) if communicator.rank == VICTIM else communicator
        arrays = case.given(communicator.rank)
        try:
            reshard(arrays, case.source, case.target, meddling, **case.options)
        finally:
            assert_state(case, arrays, case.source, communicator.rank)
            ends.append(communicator.rank)
        return "came through"

    ends: list[int] = []
    with pytest.raises((ZeroDivisionError, CommunicationError)):
        run_world(RANKS, on_each_rank)
    assert sorted(ends) == list(range(RANKS))
