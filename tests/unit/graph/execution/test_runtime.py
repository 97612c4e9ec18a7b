"""What a running program may use: memory, numbers of a run, groups of ranks, and looks at what is fed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.graph.execution.input_feed import input_feed
from mpiparallel.graph.execution.late_values import LateValues
from mpiparallel.graph.execution.run_numbers import RunNumbers
from mpiparallel.graph.execution.runtime import FedArray, Runtime
from tests.conformance.hidden_arrays.backend import hidden_backend, install
from tests.conformance.hidden_arrays.stream import HiddenEvent

Array = Any


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The backend of a device that is not there, which runs beside the host."""
    install(monkeypatch)
    return hidden_backend()


def test_memory_has_the_shape_and_dtype_that_are_asked_for_in_c_order() -> None:
    memory = Runtime().memory((3, 5), np.float16)
    assert (memory.shape, memory.dtype, memory.flags.c_contiguous) == ((3, 5), np.dtype(np.float16), True)
    assert Runtime().memory((), np.int64).shape == ()


def test_scratch_memory_of_a_slot_is_shared_and_that_of_others_is_not() -> None:
    runtime = Runtime()
    first, again = runtime.scratch((4, 3), np.float64), runtime.scratch((7,), np.int16)
    other = runtime.scratch((4, 3), np.float64, 1)
    assert (first.shape, first.dtype, again.shape, again.dtype) == ((4, 3), np.float64, (7,), np.int16)
    assert np.shares_memory(first, again)
    assert not np.shares_memory(first, other)


@pytest.mark.parametrize(("first", "second", "shared"), [(1, 65536, True), (1, 65537, False), (70000, 70000, True)])
def test_scratch_memory_is_64_kib_or_what_is_asked_for_and_grows_with_that(
    first: int, second: int, shared: bool
) -> None:
    runtime = Runtime()
    before, after = runtime.scratch((first,), np.uint8), runtime.scratch((second,), np.uint8)
    assert after.size == second
    assert np.shares_memory(before, after) == shared


def of_a_rank(communicator: Communicator) -> list[tuple[int, ...]]:
    runtime = Runtime(communicator=communicator)
    halves = ((0, 1), (2, 3))
    return [tuple(runtime.group(ranks).ranks) for ranks in ((0, 1, 2, 3), halves[communicator.rank // 2])]


def test_a_group_is_that_of_the_ranks_that_are_named() -> None:
    every = (0, 1, 2, 3)
    assert run_world(4, of_a_rank) == [[every, (0, 1)], [every, (0, 1)], [every, (2, 3)], [every, (2, 3)]]


SEEN: dict[str, tuple[Callable[[Array], Array], bool]] = {
    "the input itself": (lambda fed: fed, True),
    "the input in another shape": (lambda fed: fed.reshape(-1), True),
    "a part of it": (lambda fed: fed[:1], False),
    "another array": (lambda fed: fed * 1, False),
    "its bytes as another type": (lambda fed: fed.view(np.float32), False),
    "none of its elements": (lambda fed: fed[:0], False),
    "its elements in another order": (lambda fed: fed.transpose(1, 0), False),
}


@pytest.mark.parametrize(("see", "is_looked_at"), SEEN.values(), ids=SEEN)
def test_an_input_of_a_device_is_looked_at_as_it_is_fed_and_nothing_else_is(
    backend: Any, see: Callable[[Array], Array], is_looked_at: bool
) -> None:
    def check(_array: np.ndarray[Any, Any]) -> None: ...

    runtime = Runtime(backend)
    fed = [backend.from_host(np.arange(6, dtype=np.int32).reshape(2, 3)) for _ in range(2)]
    runtime.fed = [FedArray(one) for one in fed]
    assert runtime.looks_when_fed(see(fed[1]), check) == is_looked_at
    assert [one.checks for one in runtime.fed] == [[], [check] * is_looked_at]


def test_on_the_host_a_kernel_looks_at_an_input_itself() -> None:
    runtime, fed = Runtime(), np.arange(3)
    runtime.fed = [FedArray(fed)]
    assert not runtime.looks_when_fed(fed, lambda _: None)


def test_numbers_of_a_run_are_those_of_its_beginning_however_many_there_are() -> None:
    numbers, run = RunNumbers(NumpyBackend()), 0
    numbers.bring()
    held = [numbers.add(lambda place=place: 2**40 * run + place) for place in range(1025)]
    assert {(one.shape, one.dtype) for one in held} == {((1,), np.dtype(np.uint64))}
    for run in (1, 2):
        numbers.bring()
        assert [int(one[0]) for one in held] == [2**40 * run + place for place in range(1025)]


@pytest.mark.parametrize(("byte_count", "is_brought"), [(8, True), (4096, True), (4104, False)])
def test_small_results_of_a_device_are_brought_before_anybody_asks(
    backend: Any, byte_count: int, is_brought: bool
) -> None:
    late = LateValues(backend)
    arrays = [np.arange(byte_count // 8) + 0.5 * place for place in range(3)]
    found = [late.fetched(backend.from_host(one)) for one in arrays]
    assert [one is not None for one in found] == [is_brought] * 3
    for one, array in zip(found, arrays, strict=True):
        if one is not None:
            np.testing.assert_array_equal(one.read(), array)


def test_each_result_is_its_own_while_others_are_still_on_their_way(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HiddenEvent, "done", False)
    late = LateValues(backend)
    found = [late.fetched(backend.from_host(np.full(2, number))) for number in (1.0, 2.0, 3.0)]
    assert [one.is_there for one in found if one is not None] == [False] * 3
    assert [one.read().tolist() for one in found if one is not None] == [[1.0] * 2, [2.0] * 2, [3.0] * 2]


def test_what_a_device_is_fed_may_be_written_to_again_at_once(backend: Any) -> None:
    targets = [backend.from_host(np.zeros(shape)) for shape in ((2, 3), (4,))]
    bring, given = input_feed(backend, targets), [np.zeros((2, 3)), np.zeros(4)]
    seen = []
    for number in range(5):
        given[0][...], given[1][...] = number, -number
        bring(given)
        given[0][...], given[1][...] = np.nan, np.nan
        seen.append([backend.to_host(one).tolist() for one in targets])
    assert seen == [[[[number] * 3] * 2, [-number] * 4] for number in range(5)]
