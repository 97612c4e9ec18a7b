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
from mpiparallel.communication.world import current, initialised, named_groups, set_current, use
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
        wrong: list[tuple[str, Callable[[], object]]] = [
            ('no group "other" on this rank', lambda: get_rank("other")),
            ('there is no group "other"; known groups: hccl_world_group, all', lambda: destroy_group("other")),
            (r'"all" already names the ranks \[0, 1\]', lambda: create_group("all", [communicator.rank])),
            ("is the name of the group of all ranks", lambda: create_group(GlobalComm.WORLD_COMM_GROUP, [0, 1])),
            ('group "all": no member 2', lambda: get_world_rank_from_group_rank("all", 2)),
            ('group "all": rank 5 is not one of its ranks', lambda: get_group_rank_from_world_rank(5, "all")),
        ]
        for words, call in wrong:
            with pytest.raises(ConfigurationError, match=words):
                call()

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
