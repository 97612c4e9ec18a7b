"""What ends and what goes on when a rank does not get memory, in every phase of a move."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.reshard import array_space, memory, movement
from mpiparallel.reshard.planning.plan_cache import PlanCache
from tests.conformance.meddling_communicator import Meddling
from tests.conformance.resharding.faulty_moves import VICTIM, Outcome, agreed, case_of, every_way, move_with_a_fault
from tests.conformance.resharding.reshard_cases import MODES, Case
from tests.conformance.resharding.reshard_states import RANKS

# Where a move makes what may be large; shared memory is asked of the communicator.
ASKING = ((memory, "allocate"), (PlanCache, "plan"), (movement, "bind"), (array_space, "Checksummer"))


class Refusal:
    """Refuses the n-th memory that the victim asks for in any phase, and notes what for it asks."""

    def __init__(self, number: int | None) -> None:
        self.phases: list[str] = []
        self.done = False
        self._number = number

    def due(self, phase: str) -> bool:
        """Whether this is the request to refuse."""
        if threading.current_thread().name != f"rank {VICTIM}":
            return False
        self.phases.append(phase)
        now = len(self.phases) - 1 == self._number
        self.done |= now
        return now

    def on(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function``, which now and then lacks the memory."""

        def call(*args: Any, **named: Any) -> Any:
            if self.due(phase):
                raise MemoryError(f"no memory for {phase}")
            return function(*args, **named)

        return call

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Stand in every place where a move asks for memory."""
        with ExitStack() as stack:
            for module, name in ASKING:
                replacement = self.on(name, getattr(module, name))
                stack.enter_context(mock.patch.object(module, name, replacement))
            yield


class Sharing:
    """A communicator whose shared memory may be refused where it is asked for."""

    def __init__(self, communicator: Communicator, refusal: Refusal) -> None:
        self._communicator = communicator
        self._refusal = refusal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._communicator, name)

    def share(self, nbytes: int) -> Any:
        return self._communicator.share(1 << 62 if self._refusal.due("share") else nbytes)


def move_with_refusal(case: Case, number: int | None, then: str) -> tuple[Refusal, Outcome]:
    refused = Refusal(number)

    def on_each_rank(communicator: Communicator) -> Outcome:
        sharing: Any = Sharing(communicator, refused)
        return move_with_a_fault(sharing, case, then)

    with refused.everywhere():
        return refused, agreed(run_world(RANKS, on_each_rank, hosts=case.hosts), case)


@pytest.mark.parametrize("then", ["forward", "back"])
@every_way
def test_memory_refused_in_any_phase_ends_the_move_on_every_rank_which_then_goes_on_or_back(
    executor: str, mode: str, windows: str, then: str
) -> None:
    case = case_of(executor, mode, windows)
    asked, clean = move_with_refusal(case, None, "forward")
    assert clean.error is None
    phases = {"plan", "bind"} | {"share" if executor == "shared" else "allocate"}
    assert phases <= set(asked.phases)
    for number in range(len(asked.phases)):
        refused, outcome = move_with_refusal(case, number, then)
        assert refused.done
        assert outcome.error is not None, f"{asked.phases[number]} was refused, and nobody said so"
        assert f"rank {VICTIM}" in outcome.error or "memory" in outcome.error


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("executor", "broken"), [("datatypes", "strided_exchange"), ("shared", "share")])
def test_memory_that_the_communicator_refuses_ends_the_move_on_every_rank_which_then_goes_on(
    executor: str, broken: str, mode: str
) -> None:
    case = case_of(executor, mode, "one window")

    def on_each_rank(communicator: Communicator) -> Outcome:
        failures = iter([MemoryError("no room")])

        def before(call: str) -> None:
            if call == broken:
                for error in failures:
                    raise error

        meddling: Any = Meddling(communicator, before)
        return move_with_a_fault(meddling, case, "forward")

    outcome = agreed(run_world(RANKS, on_each_rank, hosts=case.hosts), case)
    assert outcome.error is not None
    assert "no room" in outcome.error
