"""A rank of a simulated world gets what threads get that all do the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.simulated import simulated_world
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CommunicationError

SIZE = 4
VALUES = np.array([[3, 1, 2], [0, 5, 7], [2, 2, 2], [9, 1, 4]])


def gathered(world: Communicator, array: Any) -> Any:
    target = np.zeros((SIZE, *array.shape), array.dtype)
    world.all_gather(array, target)
    return target


def scattered(world: Communicator, array: Any, operation: Any) -> Any:
    target = np.zeros(array.shape[1:], array.dtype)
    world.reduce_scatter(array, target, operation)
    return target


def swapped(world: Communicator, array: Any) -> Any:
    target = np.zeros_like(array)
    world.all_to_all(array, target)
    return target


def changed(world: Communicator, method: str, array: Any, *arguments: Any) -> Any:
    array = array.copy()
    getattr(world, method)(array, *arguments)
    return array


def changing(method: str, *arguments: Any) -> Callable[[Communicator, Any], Any]:
    return lambda world, array: changed(world, method, array, *arguments)


def scattering(operation: str) -> Callable[[Communicator, Any], Any]:
    return lambda world, array: scattered(world, array, operation)


OPERATIONS = ("sum", "prod", "max", "min")
CALLS: dict[str, Callable[[Communicator, Any], Any]] = {
    **{f"all_reduce by {operation}": changing("all_reduce", operation) for operation in OPERATIONS},
    **{f"reduce by {operation}": changing("reduce", 0, operation) for operation in OPERATIONS},
    **{f"reduce_scatter by {operation}": scattering(operation) for operation in OPERATIONS},
    "all_reduce": changing("all_reduce"),
    "reduce": changing("reduce", 0),
    "broadcast": changing("broadcast", 0),
    "all_gather": gathered,
    "all_to_all": swapped,
    "any_true": lambda world, array: [world.any_true(True), world.any_true(False)],
}


@pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_give_what_threads_get_that_all_do_the_same(call: Callable[[Communicator, Any], Any], dtype: Any) -> None:
    array = VALUES.astype(dtype)
    found = call(simulated_world(SIZE, ranks_per_host=2), array)
    first = run_world(SIZE, call, array)[0]
    np.testing.assert_array_equal(found, first)
    assert np.asarray(found).dtype == np.asarray(first).dtype


def test_sums_of_small_integers_wrap_around_in_worlds_that_are_larger() -> None:
    total = np.array([1, 2, 3], np.int8)
    simulated_world(200, ranks_per_host=8).all_reduce(total)
    # 200, 400 and 600 less multiples of 256.
    assert total.tolist() == [-56, -112, 88]


@pytest.mark.parametrize(
    ("members", "hosts", "own"),
    [
        (range(7), (0, 0, 0, 3, 3, 3, 6), (0, 1, 2)),
        ([2, 3, 5], (0, 3, 3), (2,)),
        ([3, 4, 5, 6], (3, 3, 3, 6), (3, 4, 5)),
    ],
)
def test_consecutive_ranks_share_a_host(members: Any, hosts: tuple[int, ...], own: tuple[int, ...]) -> None:
    world = simulated_world(7, ranks_per_host=3)
    for group in (world.group(members), world.world_of(members)):
        assert (group.rank, group.size, group.ranks) == (0, len(members), tuple(members))
        assert (group.hosts, group.host_ranks) == (hosts, own)


def test_what_needs_nobody_does_nothing_and_names_change_nothing() -> None:
    world = simulated_world(2, ranks_per_host=1)
    assert world.labelled("a step") is world
    assert world.beginning(0, None)() is None
    noted: Any = world.noted("all_reduce", "float32", count=3)
    with noted as call:
        assert call.resumed() is call
    for wait in (world.barrier, world.rest, world.check_members, world.free):
        assert wait() is None
    assert (world.overlaps, world.can_share, world.library) == (False, False, "simulated")
    world.step_flag.own = 3
    world.start_step_check("a step")()
    assert world.step_flag.heard == 3


@pytest.mark.parametrize("name", ["send", "receive", "exchange", "share", "all_to_all_v", "start_all_reduce"])
def test_what_needs_another_rank_is_refused_and_what_no_world_has_is_missing(name: str) -> None:
    world = simulated_world(2, ranks_per_host=1)
    with pytest.raises(CommunicationError) as caught:
        getattr(world, name)(np.zeros(1), 1, tag=2)
    words = "in a simulation there is no other rank to talk to; leave it out there, or put it after the training"
    assert str(caught.value) == f"{name}: {words}"
    with pytest.raises(AttributeError, match=f"^{name}_all$"):
        getattr(world, f"{name}_all")
