from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone, run_world, running
from mpiparallel.communication.world import current, initialised
from mpiparallel.errors import CommunicationError
from tests.conformance.communicator import CLAIMS, Claim, Run
from tests.conformance.message_claims import MESSAGE_CLAIMS
from tests.conformance.patience import stretched
from tests.conformance.resharding.exchange_claims import EXCHANGE_CLAIMS


def run_as_world(size: int, function: Callable[[Communicator], object]) -> object:
    return run_world(size, function)


def run_as_group(size: int, function: Callable[[Communicator], object]) -> object:
    def inside(world: Communicator) -> None:
        members = world.ranks[-size:]
        if world.rank in members:
            function(world.group(members))

    return run_world(5, inside)


@pytest.mark.parametrize("run", [run_as_world, run_as_group])
@pytest.mark.parametrize("claim", CLAIMS + EXCHANGE_CLAIMS + MESSAGE_CLAIMS, ids=lambda claim: claim.__name__)
def test_threads_conform(claim: Claim, run: Run) -> None:
    claim(run)


def test_results_come_in_rank_order_and_arguments_are_passed() -> None:
    assert run_world(3, lambda communicator, base: base + communicator.rank, 10) == [10, 11, 12]


def test_alone_is_a_world_of_one() -> None:
    total = np.array([3.0])
    alone().all_reduce(total)
    assert total == 3.0
    assert alone().ranks == (0,)


def test_each_thread_rank_has_its_communicator_as_current_world() -> None:
    assert run_world(2, lambda communicator: current() is communicator) == [True, True]
    assert not initialised()


def test_the_first_exception_is_raised_with_its_rank_and_the_others_are_released() -> None:
    def function(communicator: Communicator) -> None:
        if communicator.rank == 1:
            raise KeyError("broken")
        communicator.barrier()

    with pytest.raises(KeyError, match="broken") as caught:
        run_world(3, function)
    assert caught.value.__notes__ == ["raised on rank 1 of 3"]


def test_a_rank_that_ends_early_is_named() -> None:
    def function(communicator: Communicator) -> None:
        if communicator.rank != 1:
            communicator.group([0, 2]).barrier()
            communicator.barrier()

    with pytest.raises(CommunicationError, match="waits in barrier for rank 1, which has already ended"):
        run_world(3, function)


def test_a_failure_is_known_to_the_receiver_of_a_message() -> None:
    messages: list[str] = []

    def function(communicator: Communicator) -> None:
        if communicator.rank == 0:
            raise ValueError("no data")
        try:
            communicator.receive(np.zeros(1), 0)
        except CommunicationError as error:
            messages.append(str(error))

    with pytest.raises(ValueError, match="no data"):
        run_world(2, function)
    assert messages == ["rank 1 waits in receive from rank 0 for rank 0, which failed with ValueError: no data"]


@pytest.mark.parametrize("fails", [False, True])
def test_who_waits_for_a_device_misses_a_rank_that_has_failed_and_none_that_has_ended(fails: bool) -> None:
    told: list[str] = []

    def on_each_rank(communicator: Communicator) -> None:
        communicator.barrier()
        if communicator.rank == 1:
            if fails:
                raise ValueError("no more")
            return
        for thread in threading.enumerate():
            if thread.name == "rank 1":
                thread.join()
        try:
            communicator.check_members()
        except CommunicationError as error:
            told.append(str(error))

    with suppress(ValueError):
        run_world(2, on_each_rank)
    words = "rank 0 waits for its device and for rank 1, which failed with ValueError: no more"
    assert told == ([words] if fails else [])


def test_a_deadlock_ends_at_the_timeout_and_says_who_waits() -> None:
    with pytest.raises(CommunicationError, match="rank 0 waits in send to rank 1; rank 1 waits in send to rank 0"):
        run_world(2, lambda communicator: communicator.send(np.zeros(1), 1 - communicator.rank), timeout=stretched(0.5))


def test_a_rank_that_computes_too_long_is_named() -> None:
    over = threading.Event()
    with pytest.raises(CommunicationError, match="s: rank 1 computes"):
        run_world(2, lambda communicator: communicator.rank == 0 or over.wait(), timeout=stretched(0.5))
    over.set()


def test_what_a_busy_machine_keeps_from_ranks_does_not_count(monkeypatch) -> None:
    clock = SimpleNamespace(now=0.0, used=0.0)

    def monotonic():
        # A process of this machine gets a fifteenth of it.
        clock.now, clock.used = clock.now + 15.0, clock.used + 1.0
        return clock.now

    over, began = threading.Event(), []

    def function(communicator: Communicator) -> bool:
        began.append(clock.now)
        return over.wait()

    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=monotonic, process_time=lambda: clock.used))
    monkeypatch.setattr(running, "_LONGEST_TICK", 0.001)
    with pytest.raises(CommunicationError, match="did not end within 60 s: rank 0 computes"):
        run_world(1, function)
    assert clock.now > 15 * 30.0
    over.set()


Call = Callable[[Communicator], object]

MISMATCHES: dict[str, tuple[Call, Call]] = {
    "collective": (lambda c: c.barrier(), lambda c: c.all_reduce(np.zeros(2))),
    "size": (lambda c: c.all_reduce(np.zeros(2)), lambda c: c.all_reduce(np.zeros(3))),
    "dtype": (lambda c: c.all_reduce(np.zeros(2)), lambda c: c.all_reduce(np.zeros(2, np.float32))),
    "operation": (lambda c: c.all_reduce(np.zeros(2)), lambda c: c.all_reduce(np.zeros(2), "max")),
    "root": (lambda c: c.broadcast(np.zeros(2), 0), lambda c: c.broadcast(np.zeros(2), 1)),
    "target": (
        lambda c: c.all_gather(np.zeros(2), np.zeros(6)),
        lambda c: c.all_gather(np.zeros(2), np.zeros(5)),
    ),
    "counts": (
        lambda c: c.all_to_all_v(np.zeros(3, np.uint8), [1, 1, 1], np.zeros(3, np.uint8), [1, 1, 1]),
        lambda c: c.all_to_all_v(np.zeros(4, np.uint8), [1, 1, 2], np.zeros(3, np.uint8), [1, 1, 1]),
    ),
    "nothing sent": (
        lambda c: c.exchange({}, {1: np.zeros(4, np.uint8)} if c.rank == 0 else {}),
        lambda c: c.exchange({}, {}),
    ),
}


@pytest.mark.parametrize(("usual", "other"), MISMATCHES.values(), ids=MISMATCHES)
def test_a_mismatch_raises_on_all_ranks_and_the_world_goes_on(usual: Call, other: Call) -> None:
    def function(communicator: Communicator) -> str:
        with pytest.raises(CommunicationError) as caught:
            (other if communicator.rank == 1 else usual)(communicator)
        communicator.barrier()
        return str(caught.value)

    messages = run_world(3, function)
    assert len(set(messages)) == 1
    assert "1" in messages[0]


def test_what_a_rank_overwrites_right_after_a_call_all_others_have_read() -> None:
    def function(communicator: Communicator) -> None:
        pauses = Random(communicator.rank)

        def check(call: Callable[..., None], arrays: list[np.ndarray], *others: object, wanted: object) -> None:
            call(*arrays, *others)
            np.testing.assert_array_equal(arrays[-1], wanted)
            for array in arrays:
                array[:] = -1.0
            if pauses.random() < 0.1:
                time.sleep(0.001)

        for step in range(60):
            given = step + np.arange(4.0)
            own = given[communicator.rank]
            check(communicator.all_gather, [np.full(2, own), np.empty(8)], wanted=given.repeat(2))
            check(communicator.all_reduce, [np.full(2, own)], wanted=given.sum())
            check(communicator.reduce, [np.full(2, own)], 3, "max", wanted=own)
            check(communicator.reduce_scatter, [given.repeat(2), np.empty(2)], wanted=4 * own)
            check(communicator.broadcast, [np.full(2, own)], 2, wanted=given[2])
            check(communicator.all_to_all, [given.repeat(2), np.empty(8)], wanted=own)

    run_world(4, function)


def test_a_message_of_the_wrong_size_raises_at_both_ends() -> None:
    def function(communicator: Communicator) -> None:
        calls: list[Call] = [lambda c: c.send(np.zeros(2), 1), lambda c: c.receive(np.zeros(3), 0)]
        with pytest.raises(CommunicationError, match="rank 0 sends 2 elements of float64 where rank 1 receives 3"):
            calls[communicator.rank](communicator)

    run_world(2, function)


@pytest.mark.parametrize("root", [-1, 2, 7])
def test_a_root_that_is_no_member_is_refused(root: int) -> None:
    for call in ("broadcast", "reduce"):
        with pytest.raises(CommunicationError, match=f"{call}: there is no member {root}; members are counted 0 to 1"):
            run_world(2, lambda everyone, call=call: getattr(everyone, call)(np.zeros(2), root))


def test_thread_ranks_may_believe_in_several_hosts() -> None:
    def function(communicator: Communicator) -> tuple[int, ...]:
        memory = communicator.share(1)
        if communicator.rank == 1:
            with pytest.raises(CommunicationError, match=r"member 0 is not seen here; seen are members \[1\]"):
                memory.of(0)
        return communicator.world_of([2, 1, 0]).hosts

    assert run_world(3, function, hosts=[5, 6, 5]) == [(0, 1, 0)] * 3


def test_a_rank_that_ends_is_named_to_those_who_wait_in_a_world_inside_a_world() -> None:
    def function(communicator: Communicator) -> None:
        inner = communicator.world_of([2, 1, 0]).world_of([1, 0, 2])
        if communicator.rank != 1:
            inner.barrier()

    with pytest.raises(CommunicationError, match="waits in barrier for rank 0, which has already ended"):
        run_world(3, function)


def test_a_world_that_needs_a_rank_which_has_ended_is_refused_to_those_who_wait() -> None:
    def function(communicator: Communicator) -> None:
        if communicator.rank == 0:
            time.sleep(0.05)
            communicator.world_of([1, 0]).barrier()

    with pytest.raises(CommunicationError, match="rank 1 waits in barrier for rank 0, which has already ended"):
        run_world(2, function)


def test_a_deadlock_in_an_inner_world_says_who_waits() -> None:
    def function(communicator: Communicator) -> None:
        inner = communicator.world_of([1, 0])
        inner.send(np.zeros(1), 1 - inner.rank)

    with pytest.raises(CommunicationError, match="rank 0 waits in send to rank 0; rank 1 waits in send to rank 1"):
        run_world(2, function, timeout=stretched(0.5))


def test_memory_that_cannot_be_had_is_refused_on_all_ranks() -> None:
    def function(communicator: Communicator) -> None:
        with pytest.raises(MemoryError, match=r"^rank 1: Unable to allocate"):
            communicator.share(1 << 60 if communicator.rank == 1 else 8)
        communicator.barrier()

    run_world(3, function)
