"""What ends and what goes on when bytes are damaged, memory is refused, ranks disagree or a rank fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CommunicationError, ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import Movement, ReshardOptions, memory, movement, reshard
from tests.conformance.meddling_communicator import Meddling, flip_a_bit
from tests.conformance.reshard_cases import EXECUTORS, MODES, Case
from tests.conformance.reshard_claims import assert_state, refusal
from tests.conformance.reshard_states import RANKS, state

SCRATCH = {"one window": 64 << 20, "many windows": 4096}
VICTIM = 1
# Where a move makes what may be large; shared memory is asked of the communicator.
ASKING = ((memory, "allocate"), (movement, "plan_reshard"), (movement, "bind"), (movement, "Checksummer"))

every_way = pytest.mark.parametrize(
    ("executor", "mode", "windows"),
    [(executor, mode, windows) for executor in EXECUTORS for mode in MODES for windows in SCRATCH],
)


class Outcome(NamedTuple):
    """What one rank saw: the error of its first attempt, and where the tensors were after it."""

    error: str | None
    layouts: dict[str, Layout]


def case_of(executor: str, mode: str, windows: str, **options: Any) -> Case:
    """Return a move; in bounded mode every tensor is a wave."""
    return state(executor=executor, mode=mode, scratch_bytes=SCRATCH[windows], wave_bytes=1, **options)


def move_with_a_fault(communicator: Communicator, case: Case, then: str) -> Outcome:
    """Move forward until the fault, check that the state is consistent, and go on or back, without it."""
    given = case.given(communicator.rank)
    moving = Movement(dict(given), case.source, case.target, communicator, ReshardOptions(**case.options))
    error = None
    try:
        moving.forward()
    except ReshardError as raised:
        error = str(raised)
    layouts = dict(moving.layouts)
    assert_state(case, moving.arrays, layouts, communicator.rank)
    assert_state(case, given, case.source, communicator.rank)
    getattr(moving, then)()
    end = case.target if then == "forward" else case.source
    assert moving.layouts == end
    assert_state(case, moving.arrays, end, communicator.rank)
    return Outcome(error, layouts)


def agreed(outcomes: Sequence[Outcome], case: Case) -> Outcome:
    """Return the outcome of all ranks: they know one state, which in safe mode is the old or the new one."""
    assert all(outcome.layouts == outcomes[0].layouts for outcome in outcomes)
    assert len({outcome.error is None for outcome in outcomes}) == 1
    first = outcomes[0]
    if first.error is None:
        assert first.layouts == case.target
    elif case.options["mode"] == "safe":
        assert first.layouts == case.source
    else:
        assert all(layout in (case.source[name], case.target[name]) for name, layout in first.layouts.items())
    return first


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


@pytest.mark.parametrize("then", ["forward", "back"])
@every_way
def test_a_bit_damaged_anywhere_on_its_way_is_named_on_every_rank_and_the_move_goes_on_or_back(
    executor: str, mode: str, windows: str, then: str
) -> None:
    case = case_of(executor, mode, windows, digest=True)
    undamaged, clean = move_with_damage(case, None, 0, "forward")
    assert clean.error is None
    partial = False
    for number in arrivals_of_bytes(undamaged.events, executor):
        damage, outcome = move_with_damage(case, number, 0, then)
        assert (outcome.error is not None) == damage.done
        if outcome.error is not None:
            assert "rank" in outcome.error
            assert any(name in outcome.error for name in case.tensors)
            partial |= outcome.layouts != case.source
    assert partial == (mode == "bounded")


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
    phases = {"plan_reshard", "bind"} | {"share" if executor == "shared" else "allocate"}
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


class Swap:
    """Swaps two unlike elements of what has landed on the victim, after its checksums were made."""

    def __init__(self) -> None:
        self.done = False
        self._landed: Sequence[NDArray[Any]] = ()

    def landed(self, call: str, arrays: Sequence[NDArray[Any]]) -> None:
        if call == "strided run":
            self._landed = arrays

    def before(self, call: str) -> None:
        if call == "exchange" and not self.done:
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
        run_world(RANKS, on_each_rank, timeout=20.0)
    assert sorted(ends) == list(range(RANKS))
