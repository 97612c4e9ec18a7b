"""What ends and what goes on when bytes arrive damaged, misplaced, or come from replicas that are not equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import reshard, verification
from tests.conformance.meddling_communicator import Meddling, flip_a_bit
from tests.conformance.resharding.faulty_moves import VICTIM, Outcome, agreed, case_of, every_way, move_with_a_fault
from tests.conformance.resharding.reshard_cases import MODES, Case
from tests.conformance.resharding.reshard_claims import refusal
from tests.conformance.resharding.reshard_states import RANKS, state

TENSOR = "(bias|mask|matrix|step)"
TOLD = {
    "verify": rf"bytes arrived damaged: {TENSOR}.* from rank [023]",
    "digest": rf"{TENSOR}: its (digest is another after it was moved|3 replicas are not equal)",
}


class Damage:
    """Flips a bit of what arrives on the victim in the n-th event that brings bytes, and notes all these events."""

    def __init__(self, number: int | None, position: int) -> None:
        self.events: list[str] = []
        self.done = False
        self._number = number
        self._position = position

    def __call__(self, call: str, arrays: Sequence[NDArray[Any]]) -> None:
        if call not in ("exchange", "all_to_all_v", "strided run", "barrier"):
            return
        if len(self.events) == self._number:
            self.done = flip_a_bit(arrays, self._position)
        self.events.append(call)


def arrivals_of_bytes(events: Sequence[str], executor: str) -> list[int]:
    """Return which events bring elements or checksums: not those that tell where shared memory is, or start a wave."""
    barriers = [number for number, event in enumerate(events) if event == "barrier"]
    starts = set(barriers[::2])
    addresses = {number - 1 for number in starts} if executor == "shared" else set()
    return [number for number in range(len(events)) if number not in starts | addresses]


def move_with_damage(case: Case, number: int | None, position: int, then: str) -> tuple[Damage, Outcome]:
    damage = Damage(number, position)

    def on_each_rank(communicator: Communicator) -> Outcome:
        meddling: Any = Meddling(communicator, landed=damage) if communicator.rank == VICTIM else communicator
        return move_with_a_fault(meddling, case, then)

    return damage, agreed(run_world(RANKS, on_each_rank, hosts=case.hosts), case)


@pytest.mark.parametrize("protection", TOLD)
@pytest.mark.parametrize("then", ["forward", "back"])
@every_way
def test_a_bit_damaged_anywhere_on_its_way_is_told_on_every_rank_and_the_move_goes_on_or_back(
    executor: str, mode: str, windows: str, then: str, protection: str
) -> None:
    protections = {"verify": False, "digest": False, protection: True}
    # In the shared executor the victim then gets some bytes in windows and some in shared memory.
    case = case_of(executor, mode, windows, ranks_per_host=2, **protections)
    undamaged, clean = move_with_damage(case, None, 0, "forward")
    assert clean.error is None
    partial = False
    for number in arrivals_of_bytes(undamaged.events, executor):
        damage, outcome = move_with_damage(case, number, 0, then)
        assert (outcome.error is not None) == damage.done
        if outcome.error is not None:
            assert re.search(TOLD[protection], outcome.error)
            partial |= outcome.layouts != case.source
    assert partial == (mode == "bounded")


class Swap:
    """Swaps two unlike elements of what has landed on the victim, after its checksums were made."""

    def __init__(self) -> None:
        self.done = False
        self._landed: Sequence[NDArray[Any]] = ()

    def landed(self, call: str, arrays: Sequence[NDArray[Any]]) -> None:
        if call == "strided run":
            self._landed = arrays

    def before(self, _: str) -> None:
        if self._landed and not self.done:
            largest = max(self._landed, key=lambda view: view.nbytes)
            first, last = (0,) * largest.ndim, (-1,) * largest.ndim
            assert largest[first] != largest[last]
            largest[first], largest[last] = largest[last], largest[first]
            self.done = True


@pytest.mark.parametrize("mode", MODES)
def test_the_digest_finds_the_misplacement_that_checksums_of_windows_do_not(mode: str) -> None:
    case = state(executor="datatypes", mode=mode, digest=True)
    swap = Swap()

    def on_each_rank(communicator: Communicator) -> Outcome:
        meddling: Any = communicator
        if communicator.rank == VICTIM:
            meddling = Meddling(communicator, swap.before, swap.landed)
        return move_with_a_fault(meddling, case, "forward")

    outcome = agreed(run_world(RANKS, on_each_rank), case)
    assert swap.done
    assert "matrix: its digest is another after it was moved" in str(outcome.error)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("values", [(0, 1), (5, 6, 4), (1, 1, 1, 2)])
def test_replicas_that_are_not_equal_end_a_move_with_a_digest_before_it_begins(
    values: Sequence[int], mode: str
) -> None:
    replicas = Layout((4,), DeviceMatrix((len(values),)), ((),))
    halves = Layout((4,), DeviceMatrix((2,)), ((0,),))
    given = [np.full(4, value) for value in values]

    def on_each_rank(communicator: Communicator) -> str:
        arrays = {"w": given[communicator.rank]}
        options = {"mode": mode, "digest": True}
        message = refusal(lambda: reshard(arrays, {"w": replicas}, {"w": halves}, communicator, **options))
        assert arrays["w"] is given[communicator.rank]
        return message

    messages = run_world(len(values), on_each_rank)
    assert len(set(messages)) == 1
    assert f"w: its {len(values)} replicas are not equal" in messages[0]


def test_checksums_are_shown_to_each_other_only_where_some_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(verification, "_tell_damage", lambda checked, communicator: told.append(communicator.rank))

    def compare(communicator: Communicator, of_one: int) -> None:
        here, checked = communicator.rank, verification.Checked()
        for member in range(communicator.size):
            checked.sent[member] = [10 * here + member, 5]
            checked.arrived[member] = [10 * member + here, 5 if here else of_one]
        verification.verify(checked, communicator)

    run_world(3, compare, 5)
    assert told == []
    run_world(3, compare, 6)
    assert sorted(told) == [0, 1, 2]
