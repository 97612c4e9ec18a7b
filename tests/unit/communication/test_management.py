from __future__ import annotations

from collections.abc import Callable

import pytest

from mpiparallel import communication
from mpiparallel.communication import (
    GlobalComm,
    create_group,
    destroy_group,
    get_group_rank_from_world_rank,
    get_group_size,
    get_local_rank,
    get_local_rank_size,
    get_rank,
    get_world_rank_from_group_rank,
    init,
    release,
)
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.communication.world import current, initialised, named_groups, observed, set_current, use
from mpiparallel.errors import CommunicationError, ConfigurationError


def test_the_public_names_are_complete_and_sorted() -> None:
    public = vars(communication).items()
    names = [
        name
        for name, value in public
        if getattr(value, "__module__", "").endswith(("management", "spawned_processes", "named_groups"))
    ]
    assert communication.__all__ == sorted(communication.__all__) == sorted(names)


@pytest.mark.parametrize("question", [get_rank, get_group_size, get_local_rank, lambda: create_group("a", [0])])
def test_without_a_world_every_question_says_how_to_get_one(question: Callable[[], object]) -> None:
    with pytest.raises(CommunicationError, match=r"call mpiparallel\.communication\.init\(\) first"):
        question()


def test_init_keeps_the_world_that_is_there_and_release_leaves_it() -> None:
    def function(communicator: Communicator) -> tuple[int, int]:
        init("hccl")
        assert current() is communicator
        numbers = get_rank(), get_group_size(GlobalComm.NCCL_WORLD_COMM_GROUP)
        release()
        assert not initialised()
        release()
        return numbers

    assert run_world(2, function) == [(0, 2), (1, 2)]


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='"gloo" is not one of mpi, hccl, nccl, mccl'):
        init("gloo")


def test_groups_translate_between_their_ranks_and_those_of_the_world() -> None:
    def function(communicator: Communicator) -> None:
        if communicator.rank in (1, 3):
            create_group("odd", [1, 3])
            create_group("odd", (3, 1))
            assert get_rank("odd") == get_local_rank("odd") == communicator.rank // 2
            assert get_group_size("odd") == get_local_rank_size("odd") == 2
            assert [get_world_rank_from_group_rank("odd", member) for member in (0, 1)] == [1, 3]
            assert [get_group_rank_from_world_rank(rank, "odd") for rank in (1, 3)] == [0, 1]
            destroy_group("odd")
        assert named_groups() == {}

    run_world(4, function)


def test_wrong_groups_are_refused() -> None:
    def function(communicator: Communicator) -> None:
        create_group("all", [0, 1])
        known, own = "known groups: hccl_world_group, all", communicator.rank
        taken = "is the name of the group of all ranks; choose another"
        wrong: list[tuple[str, Callable[[], object]]] = [
            (f'no group "other" on this rank; make it with create_group; {known}', lambda: get_rank("other")),
            (f'destroy_group: there is no group "other"; {known}', lambda: destroy_group("other")),
            (
                f'create_group: "all" already names the ranks [0, 1]; call destroy_group before it names [{own}]',
                lambda: create_group("all", [own]),
            ),
            *(
                (f'create_group: "{name}" {taken}', lambda name=name: create_group(name, [0, 1]))
                for name in (GlobalComm.WORLD_COMM_GROUP, GlobalComm.NCCL_WORLD_COMM_GROUP)
            ),
            *(
                (
                    f'group "all": no member {member}; members are 0 to 1',
                    lambda member=member: get_world_rank_from_group_rank("all", member),
                )
                for member in (-1, 2)
            ),
            (
                'group "all": rank 5 is not one of its ranks [0, 1]',
                lambda: get_group_rank_from_world_rank(5, "all"),
            ),
        ]
        for words, call in wrong:
            with pytest.raises(ConfigurationError) as caught:
                call()
            assert str(caught.value) == words

    run_world(2, function)


def test_worlds_nest_and_each_has_its_own_groups() -> None:
    outer, inner = alone(), alone()
    with use(outer):
        create_group("one", [0])
        with use(inner):
            assert current() is inner
            assert named_groups() == {}
        assert current() is outer
        assert list(named_groups()) == ["one"]
        set_current(None)
        assert not initialised()
    assert not initialised()


def test_numbers_on_a_host_count_the_members_there() -> None:
    def function(communicator: Communicator) -> tuple[int, int, int, int]:
        return (
            get_local_rank(),
            get_local_rank_size(),
            get_world_rank_from_group_rank("nccl_world_group", 3),
            get_rank(),
        )

    assert run_world(4, function, hosts=[1, 2, 1, 1]) == [(0, 3, 3, 0), (0, 1, 3, 1), (1, 3, 3, 2), (2, 3, 3, 3)]


def test_a_name_may_be_given_again_once_it_is_free() -> None:
    def function(communicator: Communicator) -> list[int]:
        create_group("part", [0, 1])
        destroy_group("part")
        create_group("part", [communicator.rank])
        return [get_group_size("part"), get_rank("part")]

    assert run_world(2, function) == [[1, 0], [1, 0]]


def test_who_looks_at_the_world_is_told_of_within_the_block_alone() -> None:
    looks: list[str] = []
    with use(alone()):
        with observed(lambda: looks.append("looked")):
            assert initialised()
            assert get_rank() == 0
        assert looks == ["looked"] * 2
        current()
    assert looks == ["looked"] * 2
