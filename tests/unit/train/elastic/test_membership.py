"""Who of a job trains and who waits, and what they tell each other."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel.communication import world
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CommunicationError
from mpiparallel.train.elastic.membership import Membership, is_awaited


def standing(one: Membership) -> tuple[Any, ...]:
    return one.active, one.leads, one.ranks, one.spares, one.generation, one.world.ranks, world.current().size


def test_all_train_at_first_and_the_first_of_them_leads() -> None:
    def job(communicator: Any) -> Any:
        one = Membership.of_current_world()
        assert one.number == communicator.rank
        assert one.world is one.everyone
        return standing(one)

    everyone = (0, 1, 2), (), 0, (0, 1, 2), 3
    assert run_world(3, job) == [(True, rank == 0, *everyone) for rank in range(3)]


def test_who_trains_has_a_world_of_its_own_in_the_order_asked_for_and_the_same_one_again() -> None:
    def job(communicator: Any) -> Any:
        one, worlds, seen = Membership.of_current_world(), [], []
        for ranks in ((2, 0), (0, 1, 2, 3), (2, 0), (0, 2)):
            one.switch(ranks, ())
            worlds.append(one.world)
            seen.append(standing(one))
        assert worlds[1] is one.everyone
        assert worlds[0] is worlds[2]
        assert (worlds[0] is not worlds[3]) == one.active
        return seen

    results = run_world(4, job)
    for number, seen in enumerate(results):
        trains = number in (0, 2)
        few = 2 if trains else 4
        assert [one[0] for one in seen] == [trains, True, trains, trains]
        assert [one[1] for one in seen] == [number == 2, number == 0, number == 2, number == 0]
        assert [one[3] for one in seen] == [(1, 3), (), (1, 3), (1, 3)]
        assert [one[4] for one in seen] == [1, 2, 3, 4]
        assert [one[6] for one in seen] == [few, 4, few, few]


def test_spares_hear_what_the_leader_tells_in_whatever_place_it_is() -> None:
    def job(communicator: Any) -> Any:
        one = Membership.of_current_world()
        one.switch((2, 1), ())
        if one.leads:
            one.tell(b"come")
            one.tell(b"")
        return None if one.active else (one.hear(), one.hear())

    assert run_world(4, job) == [(b"come", b""), None, None, (b"come", b"")]


def test_a_leader_without_spares_tells_nobody() -> None:
    def job(communicator: Any) -> None:
        one = Membership.of_current_world()
        one.tell(b"anyone?")

    run_world(1, job)


def test_who_leaves_is_counted_no_more_and_the_others_keep_their_numbers() -> None:
    def job(communicator: Any) -> Any:
        one = Membership.of_current_world()
        one.switch((3, 1), (0,))
        if one.has_left:
            return one.active, one.everyone.ranks
        if one.leads:
            one.tell(b"here")
        heard = None if one.active else one.hear()
        one.switch((2,), (3,))
        return one.active, one.everyone.ranks, one.has_left, heard

    zero, first, second, third = run_world(4, job)
    assert zero == (False, (0, 1, 2, 3))
    assert first == (False, (1, 2), False, None)
    assert second == (True, (1, 2), False, b"here")
    assert third == (False, (1, 2, 3), True, None)


@pytest.mark.parametrize("speaker", [0, 1, 2])
def test_all_get_the_message_of_the_one_that_has_one(speaker: int) -> None:
    def job(communicator: Any) -> bytes:
        return Membership(communicator).meet(b"go on" if communicator.rank == speaker else b"")

    assert run_world(3, job) == [b"go on"] * 3


def test_ranks_of_a_part_of_the_job_have_the_numbers_that_they_have_in_all_of_it() -> None:
    def job(communicator: Any) -> Any:
        if communicator.rank == 0:
            return None
        one = Membership(communicator.group([1, 2, 3]))
        assert one.number == communicator.rank
        assert (one.leads, one.generation, one.has_left) == (one.number == 1, 0, False)
        heard = one.meet(b"from 3" if one.number == 3 else b"")
        one.join([3, 1])
        if one.leads:
            one.tell(b"from the leader")
        return heard, one.spares, one.leads, None if one.active else one.hear()

    found = run_world(4, job)
    assert found[0] is None
    assert found[1:] == [
        (b"from 3", (2,), False, None),
        (b"from 3", (2,), False, b"from the leader"),
        (b"from 3", (2,), True, None),
    ]


def test_who_joins_is_a_spare_of_those_that_train() -> None:
    def job(communicator: Any) -> Any:
        one = Membership(communicator)
        one.join([1, 0])
        return one.ranks, one.spares, one.active

    assert run_world(3, job) == [((1, 0), (2,), rank < 2) for rank in range(3)]


def test_what_is_made_ready_is_what_is_switched_to() -> None:
    def job(communicator: Any) -> Any:
        one = Membership.of_current_world()
        one.make_ready((2, 0))
        made: list[Any] = []
        world_of = one.everyone.world_of
        one.everyone.world_of = lambda ranks: (made.append(tuple(ranks)), world_of(ranks))[1]  # type: ignore[method-assign]
        one.switch((2, 0), ())
        return made, one.world.ranks if one.active else None

    first, second, third = run_world(3, job)
    assert [made for made, _ in (first, second, third)] == [[], [], []]
    assert first[1] == third[1]


def test_threads_start_no_processes() -> None:
    def job(communicator: Any) -> str:
        with pytest.raises(CommunicationError) as raised:
            Membership(communicator).grow(1)
        return str(raised.value)

    words = "Model.reshard: thread ranks cannot start processes; start the job with mpirun"
    assert run_world(2, job) == [words] * 2


def test_a_process_that_nobody_has_started_is_awaited_by_nobody() -> None:
    assert run_world(2, lambda communicator: (is_awaited(), is_awaited())) == [(False, False)] * 2
