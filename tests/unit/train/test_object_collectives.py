"""JSON values that ranks give to each other, whatever their lengths."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel.communication import world
from mpiparallel.communication.threads import run_world
from mpiparallel.train.object_collectives import all_gather_object, broadcast_object, world_or_alone

VALUES = [{"step": 3, "names": ["ä", "b"]}, None, "x" * 300, [], 7, True, 2.5, ""]


@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_each_rank_has_what_all_have_said_in_the_order_of_the_ranks(ranks: int) -> None:
    found = run_world(ranks, lambda communicator: all_gather_object(VALUES[communicator.rank], communicator))
    assert found == [VALUES[:ranks]] * ranks


@pytest.mark.parametrize("value", VALUES)
def test_all_ranks_have_what_the_first_one_says(value: Any) -> None:
    def on_rank(communicator: Any) -> Any:
        return broadcast_object(value if communicator.rank == 0 else object(), communicator)

    assert run_world(3, on_rank) == [value] * 3


def test_a_part_of_the_ranks_may_gather_and_broadcast_among_themselves() -> None:
    def on_rank(communicator: Any) -> Any:
        if communicator.rank == 1:
            return None
        part = communicator.group([0, 2])
        return all_gather_object(communicator.rank, part), broadcast_object(communicator.rank + 10, part)

    assert run_world(3, on_rank) == [([0, 2], 10), None, ([0, 2], 10)]


def test_the_ranks_are_those_of_the_world_or_this_process_alone() -> None:
    assert run_world(3, lambda communicator: world_or_alone() is communicator) == [True] * 3
    assert not world.initialised()
    assert (world_or_alone().size, world_or_alone().rank) == (1, 0)
