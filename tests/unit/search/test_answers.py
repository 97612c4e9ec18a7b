"""Which of the answers of its methods a search gives, and what it says where none fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.strategies import Strategies
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.parameter import Parameter
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.methods.answer import Answer
from mpiparallel.search.problem.clock import TimeOverError
from mpiparallel.search.problem.task import Task
from mpiparallel.search.search import MODES, search


@pytest.fixture
def mode() -> Iterator[str]:
    """The name of a mode whose methods a test gives."""
    yield "of this test"
    MODES.pop("of this test", None)


def task(stages: int = 1) -> Task:
    """Two operators and 16 bytes of weights on two ranks; no strategy of them is below 3 s."""
    graph = Graph()
    spec = TensorSpec((2, 2), np.dtype(np.float32))
    weight = graph.add_parameter(Parameter(np.ones((2, 2), np.float32), "weight"), spec)
    first = graph.add_node(ops.Add(), "first", [graph.add_input("x", spec), weight], [spec])
    second = graph.add_node(ops.Sqrt(), "second", first.outputs, [spec])
    graph.outputs = [*second.outputs]
    machine = Machine(operation_rate=4 / 3, memory_bandwidth=inf, launch=0.0)
    prices = Prices(machine)
    return Task(graph, ParallelConfiguration(device_num=2), Strategies.of(graph), {}, prices, stages)


def told(*answers: Answer | type[Exception]) -> tuple[Any, ...]:
    """Return methods of which each gives an answer, or has no time."""

    def method(answer: Answer | type[Exception]) -> Any:
        def solve(started: object, floor: float) -> Answer:
            if isinstance(answer, Answer):
                return answer
            raise answer

        return solve

    return tuple(map(method, answers))


def answer(seconds: float, bound: float, memory: float = 0.0) -> Answer:
    return Answer({}, seconds, bound, memory)


@pytest.mark.parametrize(
    ("answers", "limit", "wanted"),
    [
        # The last method is tried first where there is time.
        ((answer(0.2, 0.1), answer(0.3, 0.2)), inf, (0.2, 0.2)),
        ((answer(0.2, 0.2), answer(0.3, 0.3)), inf, (0.3, 0.3)),
        ((answer(0.2, 0.1, 21.0), answer(0.3, 0.2, 20.0)), 4.0, (0.3, 0.2)),
        # What does not fit is no reason to stop.
        ((answer(0.2, 0.1, 20.0), answer(0.1, 0.1, 21.0)), 4.0, (0.2, 0.1)),
        # A bound above the best is that of another limit.
        ((answer(0.2, 0.1), answer(0.4, 0.3)), inf, (0.2, 0.1)),
        ((answer(0.2, 0.1), TimeOverError), inf, None),
    ],
)
def test_the_quickest_answer_that_fits_is_given_with_the_highest_bound_below_it(
    answers: tuple[Any, ...], limit: float, wanted: tuple[float, float] | None, mode: str
) -> None:
    MODES[mode] = told(*answers)
    limit += 16
    found = search(task(), mode, memory=limit)
    by_batch = task().cost({}).seconds
    assert (found.seconds, found.bound) == (wanted or (by_batch, 3.0))
    assert 3.0 < by_batch < 3.1
    assert found.stopped_early is (wanted is None)


@pytest.mark.parametrize(("gap", "is_stopped"), [(0.0, False), (1e-13, False), (1e-9, True)])
def test_an_answer_after_the_time_was_stopped_early_unless_it_is_the_best_there_is(
    gap: float, is_stopped: bool, mode: str
) -> None:
    MODES[mode] = told(answer(0.2 * (1 + gap), 0.2))
    assert search(task(), mode, timeout=0).stopped_early is is_stopped
    assert search(task(), mode, timeout=1e9).stopped_early is False


def test_where_time_may_run_out_the_quick_method_comes_first(mode: str) -> None:
    MODES[mode] = told(answer(0.3, 0.3), answer(0.2, 0.2))
    assert [search(task(), mode, timeout).seconds for timeout in (1e9, inf)] == [0.3, 0.2]


def test_where_nothing_is_left_to_choose_no_method_is_asked(mode: str) -> None:
    MODES[mode] = told(answer(0.1, 0.1))
    graph = task().graph
    given = Strategies({node: ((2, 1),) * len(node.inputs) for node in graph.nodes})
    found = search(replace(task(), graph=graph, given=given), mode)
    assert found.seconds > 3.0
    assert found.stopped_early is False


@pytest.mark.parametrize(
    ("stages", "memory", "cuts", "wanted"),
    [
        (1, 99, None, "by the batch, needs 8e-09 GB|5e-09 GB too much"),
        (1, 7, (1, 1), "with 0 of 2 operators cut, needs 7e-09 GB|4e-09 GB too much"),
        (1, 7, (2, 1), "with 1 of 2 operators cut, needs 7e-09 GB|4e-09 GB too much"),
        (2, 7, (2, 2), "with 2 of 2 operators cut, needs 3.5e-09 GB|5e-10 GB too much"),
    ],
)
def test_where_nothing_fits_it_says_how_near_the_nearest_comes(
    stages: int, memory: float, cuts: tuple[int, int] | None, wanted: str, mode: str
) -> None:
    asked = task(stages)
    nodes = asked.graph.nodes if cuts else ()
    strategies = {node: ((1, cut), (1, 1)) for node, cut in zip(nodes, cuts or (), strict=True)}
    MODES[mode] = told(Answer(strategies, 0.1, 0.1, memory), answer(0.2, 0.2, 200.0))
    needs, above = wanted.split("|")
    with pytest.raises(ConfigurationError) as raised:
        search(asked, mode, memory=3.0)
    assert str(raised.value) == (
        f"search: a rank may hold 3e-09 GB, and nothing fits; what comes closest, {needs} for parameters, states and "
        f"what the gradient reads, {above}; use more ranks, the parallel optimizer or recomputation"
    )


def test_a_gap_is_the_part_by_which_an_answer_is_above_its_bound() -> None:
    assert [answer(3.0, bound).gap for bound in (2.0, 3.0, 4.0, 0.0)] == [0.5, 0.0, 0.0, 0.0]
