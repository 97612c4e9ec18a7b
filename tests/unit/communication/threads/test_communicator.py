"""What thread ranks say where their calls do not match, and what they pass on, give back and forget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.errors import CommunicationError

Call = Callable[[Communicator], object]
ALIKE = "all ranks must make the same calls in the same order"


def bytes_of(count: int) -> Any:
    return np.arange(count, dtype=np.uint8)


def said(size: int, call: Call) -> str:
    """Return the one message with which all ranks refuse a call."""

    def attempt(communicator: Communicator) -> str:
        with pytest.raises(CommunicationError) as caught:
            call(communicator)
        communicator.barrier()
        return str(caught.value)

    (message,) = set(run_world(size, attempt))
    return message


UNLIKE: dict[str, tuple[Call, str]] = {
    "calls": (
        lambda c: c.all_reduce(np.zeros(2)) if c.rank == 2 else c.barrier(),
        f"rank 2 calls all_reduce(<f8, 2, sum) while rank 0 calls barrier(); {ALIKE}",
    ),
    "operations": (
        lambda c: c.all_reduce(np.zeros(2, np.int16), "max" if c.rank else "min"),
        f"rank 1 calls all_reduce(<i2, 2, max) while rank 0 calls all_reduce(<i2, 2, min); {ALIKE}",
    ),
    "sizes": (
        lambda c: c.broadcast(np.zeros(3 + c.rank // 2), 1),
        f"rank 2 calls broadcast(<f8, 4, 1) while rank 0 calls broadcast(<f8, 3, 1); {ALIKE}",
    ),
    "roots": (
        lambda c: c.reduce(np.zeros(3), c.rank // 2, "prod"),
        f"rank 2 calls reduce(<f8, 3, 1, prod) while rank 0 calls reduce(<f8, 3, 0, prod); {ALIKE}",
    ),
    "gathered blocks": (
        lambda c: c.all_gather(np.zeros(2, np.int8), np.zeros(6 + (c.rank == 1), np.int8)),
        f"rank 1 calls all_gather(|i1, 2, 7) while rank 0 calls all_gather(|i1, 2, 6); {ALIKE}",
    ),
    "scattered blocks": (
        lambda c: c.reduce_scatter(np.zeros(6), np.zeros(2 + (c.rank == 1))),
        f"rank 1 calls reduce_scatter(<f8, 6, 3, sum) while rank 0 calls reduce_scatter(<f8, 6, 2, sum); {ALIKE}",
    ),
    "swapped blocks": (
        lambda c: c.all_to_all(np.zeros(6), np.zeros(6 + 3 * (c.rank == 1))),
        f"rank 1 calls all_to_all(<f8, 6, 9) while rank 0 calls all_to_all(<f8, 6, 6); {ALIKE}",
    ),
    "steps": (
        lambda c: c.start_step_check(f"step {c.rank // 2}"),
        f"rank 2 calls begin_step(step 1) while rank 0 calls begin_step(step 0); {ALIKE}",
    ),
    "a wrong call of all": (
        lambda c: c.all_gather(np.zeros(2), np.zeros(5)),
        "rank 0: all_gather: 3 members with blocks of 2 elements need 6, got 5",
    ),
    "a wrong call of one": (
        lambda c: c.all_to_all_v(bytes_of(3), [1] * 3, bytes_of(3), [1, 1, 1] if c.rank != 1 else [3, 0, 1]),
        "rank 1: all_to_all_v: target_counts [3, 0, 1] do not sum to the 3 bytes of target",
    ),
    "counts": (
        lambda c: c.all_to_all_v(
            bytes_of(4), [1, 1, 2] if c.rank == 1 else [2, 1, 1], bytes_of(4), [2, 1, 1] if c.rank == 0 else [1, 1, 2]
        ),
        "all_to_all_v: member 1 sends 2 bytes to member 2, which expects 1",
    ),
    "lengths": (
        lambda c: c.exchange({0: bytes_of(3)} if c.rank == 2 else {}, {2: bytes_of(4)} if c.rank == 0 else {}),
        "exchange: member 2 sends 3 bytes to member 0, which expects 4 bytes",
    ),
    "what nobody expects": (
        lambda c: c.exchange({1: bytes_of(3)} if c.rank == 2 else {}, {}),
        "exchange: member 2 sends 3 bytes to member 1, which expects nothing",
    ),
    "what nobody sends": (
        lambda c: c.exchange({}, {2: bytes_of(3)} if c.rank == 1 else {}),
        "exchange: member 2 sends nothing to member 1, which expects 3 bytes",
    ),
    "views": (
        lambda c: c.strided_exchange(
            {0: [bytes_of(3)]} if c.rank == 2 else {}, {2: [bytes_of(4)]} if c.rank == 0 else {}
        ),
        "strided_exchange: the views that member 2 sends to member 0 are not like those that member 0 receives; both "
        "must list equal shapes and dtypes in one order",
    ),
}


@pytest.mark.parametrize("case", UNLIKE)
def test_calls_that_do_not_match_are_told_alike_on_all_ranks(case: str) -> None:
    call, words = UNLIKE[case]
    assert said(3, call) == words


def test_members_of_a_group_are_told_by_their_world_ranks() -> None:
    def outer(communicator: Communicator) -> str | None:
        if communicator.rank == 1:
            return None
        group = communicator.group((0, 2, 3))
        with pytest.raises(CommunicationError) as caught:
            group.broadcast(np.zeros(1), 0 if communicator.rank < 3 else 1)
        return str(caught.value)

    words = f"rank 3 calls broadcast(<f8, 1, 1) while rank 0 calls broadcast(<f8, 1, 0); {ALIKE}"
    assert run_world(4, outer) == [words, None, words, words]


@pytest.mark.parametrize(
    ("own", "batches", "heard", "differ"),
    [([0, 0, 0], [5, 5, 5], 0, False), ([0, 3, 1], [5, 5, 5], 3, False), ([2, 2, 2], [5, 5, 6], 2, True)],
)
def test_a_step_check_passes_on_the_largest_flag_and_whether_batches_differ(
    own: list[int], batches: list[int], heard: int, differ: bool
) -> None:
    def check(communicator: Communicator) -> tuple[int, bool]:
        flag = communicator.group((0, 1, 2)).step_flag
        flag.own, flag.batch = own[communicator.rank], batches[communicator.rank]
        communicator.start_step_check("a step")()
        assert communicator.step_flag is flag
        return flag.heard, flag.batches_differ

    assert run_world(3, check) == [(heard, differ)] * 3


def test_what_was_heard_stays_until_more_is_heard_and_batches_are_compared_anew() -> None:
    flag = alone().step_flag
    assert (flag.own, flag.heard, flag.batch, flag.batches_differ) == (0, 0, 0, False)

    def check(communicator: Communicator) -> list[tuple[int, bool]]:
        found, flag = [], communicator.step_flag
        for own, batch in ((4, communicator.rank), (1, 7), (6, 7)):
            flag.own, flag.batch = own, batch
            communicator.start_step_check("a step")()
            found.append((flag.heard, flag.batches_differ))
        return found

    assert run_world(2, check) == [[(4, True), (4, False), (6, False)]] * 2


def test_a_message_is_not_started_again_before_it_has_ended() -> None:
    def talk(communicator: Communicator) -> str:
        other, array = 1 - communicator.rank, np.zeros(2)
        prepare = communicator.message_to if communicator.rank else communicator.message_from
        message = prepare(array, other)
        message.end()
        message.start()
        with pytest.raises(CommunicationError) as caught:
            message.start()
        message.end()
        message.start()
        message.end()
        return str(caught.value)

    assert run_world(2, talk) == ["a message was started again before it has ended"] * 2


def test_a_message_that_is_dropped_before_anybody_takes_it_is_taken_back() -> None:
    def talk(communicator: Communicator) -> float:
        array = np.array([1.0 + communicator.rank])
        if communicator.rank == 0:
            message = communicator.message_to(array, 1)
            message.start()
            del message
            array[:] = 5
            communicator.barrier()
            communicator.send(array, 1)
        else:
            communicator.barrier()
            communicator.receive(array, 0)
        return float(array[0])

    assert run_world(2, talk) == [5.0, 5.0]


def test_messages_under_one_tag_arrive_in_their_order_and_those_of_groups_are_their_own() -> None:
    def talk(communicator: Communicator) -> list[float]:
        group, array = communicator.group((0, 2)) if communicator.rank != 1 else communicator, np.zeros(1)
        if communicator.rank == 1:
            return []
        if communicator.rank == 0:
            sent = [(communicator, 2, 0), (communicator, 2, 7), (group, 1, 0), (communicator, 2, 0)]
            messages = [to.message_to(np.array([10.0 + n]), peer, tag) for n, (to, peer, tag) in enumerate(sent)]
            for message in messages:
                message.start()
            for message in messages:
                message.end()
            return []
        found = []
        for of, tag in ((group, 0), (communicator, 7), (communicator, 0), (communicator, 0)):
            of.receive(array, 0, tag)
            found.append(float(array[0]))
        return found

    assert run_world(3, talk)[2] == [12.0, 11.0, 10.0, 13.0]


def test_both_ends_of_a_message_are_told_that_their_arrays_are_unlike() -> None:
    def talk(communicator: Communicator) -> str:
        call, dtype = (communicator.receive, "f4") if communicator.rank else (communicator.send, "f8")
        with pytest.raises(CommunicationError) as caught:
            call(np.zeros(2, dtype), 1 - communicator.rank)
        return str(caught.value)

    words = "rank 0 sends 2 elements of float64 where rank 1 receives 2 of float32"
    assert run_world(2, talk) == [words] * 2


def test_a_group_of_all_is_the_communicator_itself_and_any_other_is_kept() -> None:
    def ask(communicator: Communicator) -> list[bool]:
        own = communicator.group([communicator.rank])
        again = communicator.group((communicator.rank,))
        return [communicator.group([1, 0]) is communicator, own is again, own.ranks == (communicator.rank,)]

    assert run_world(2, ask) == [[True] * 3] * 2
    assert (alone().library, alone().can_share, alone().overlaps) == ("threads", True, False)
    assert run_world(1, lambda world: world.overlaps, overlaps=True) == [True]


def test_a_world_made_twice_of_the_same_ranks_is_two_worlds_until_it_is_freed() -> None:
    def make(communicator: Communicator) -> list[Any]:
        first, second = (communicator.world_of((2, 0)) for _ in range(2))
        first.kept["what"] = 1
        told: list[Any] = [first.rank, second.rank, first.ranks, second.kept]
        for world in (first, second):
            array = np.array([first.rank])
            world.all_reduce(array)
            told.append(array.item())
            world.free()
        return [*told, first.kept]

    def outer(communicator: Communicator) -> list[Any]:
        return [] if communicator.rank == 1 else make(communicator)

    assert run_world(3, outer) == [[1, 1, (0, 1), {}, 1, 1, {}], [], [0, 0, (0, 1), {}, 1, 1, {}]]


@pytest.mark.parametrize("name", ["start_all_reduce", "start_all_gather", "start_reduce_scatter"])
def test_a_result_arrives_when_what_was_started_is_ended_and_not_before(name: str) -> None:
    def start(communicator: Communicator) -> tuple[list[float], list[float]]:
        own = 1.0 + communicator.rank
        if name == "start_all_reduce":
            target = np.array([own, own])
            end = communicator.start_all_reduce(target)
        else:
            source = np.array([own]) if name == "start_all_gather" else np.array([own, 10 * own])
            target = np.zeros(2 if name == "start_all_gather" else 1)
            end = getattr(communicator, name)(source, target)
        before = target.tolist()
        end()
        return before, target.tolist()

    wanted = {
        "start_all_reduce": [([1.0, 1.0], [3.0, 3.0]), ([2.0, 2.0], [3.0, 3.0])],
        "start_all_gather": [([0.0, 0.0], [1.0, 2.0])] * 2,
        "start_reduce_scatter": [([0.0], [3.0]), ([0.0], [30.0])],
    }
    assert run_world(2, start) == wanted[name]


def test_a_group_has_the_hosts_of_its_members_and_a_world_may_be_freed() -> None:
    def ask(communicator: Communicator) -> list[tuple[int, ...]]:
        group = communicator.group((0, 2, 3) if communicator.rank != 1 else (1,))
        told = [communicator.hosts, communicator.host_ranks, group.hosts, group.host_ranks]
        group.free()
        communicator.free()
        return told

    hosts, group = (0, 1, 0, 3), (0, 0, 3)
    wanted = [
        [hosts, (0, 2), group, (0, 2)],
        [hosts, (1,), (1,), (1,)],
        [hosts, (0, 2), group, (0, 2)],
        [hosts, (3,), group, (3,)],
    ]
    assert run_world(4, ask, hosts=[5, 6, 5, 7]) == wanted
