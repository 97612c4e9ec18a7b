"""The rounds of a search for the best: when an answer is final, and when time ends it."""

from __future__ import annotations

import sys
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.graph.graph import Node
from mpiparallel.search import search as module
from mpiparallel.search.methods.answer import Answer
from mpiparallel.search.problem.choices import Choice, choices_of
from mpiparallel.search.problem.clock import Clock, TimeOverError
from mpiparallel.search.problem.problem import NARROW, Problem, problem_of
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.views import Table, whole_view
from tests.conformance.searched_networks import Drawn, task_of


def answer(seconds: float, bound: float, memory: float = 0.0) -> Answer:
    return Answer({}, seconds, bound, memory)


def rounds(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, memory: float, is_exact: bool, is_solved: bool
) -> list[tuple[Answer, bool]]:
    """The answers of three rounds at most, each with other options."""
    options = iter(range(3))
    problem = SimpleNamespace(exact=is_exact)
    monkeypatch.setattr(module, "pricing_of", lambda *_, **__: SimpleNamespace(problem=lambda plans: problem))
    monkeypatch.setattr(module, "_eliminated", lambda *_: (answer(2.0, 1.0), (next(options),), is_solved))
    return list(module._nearer_and_nearer(module._Search(None, (), clock, memory), NARROW, 0.0, 3))


@pytest.mark.parametrize(
    ("memory", "is_exact", "is_solved", "is_final"),
    [
        (inf, True, True, True),
        (inf, True, False, True),
        (inf, False, True, False),
        # Tables that are too large to be solved are too large in the next round as well.
        (inf, False, False, True),
        # With a limit it is the limit that leaves a gap.
        (9.0, False, False, False),
        (9.0, True, False, True),
    ],
)
def test_an_answer_is_final_where_its_problem_is_what_runs_or_is_too_large(
    memory: float, is_exact: bool, is_solved: bool, is_final: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rounds(monkeypatch, Clock(), memory, is_exact, is_solved)
    assert [final for _, final in found] == [is_final] * 3


def test_no_other_round_begins_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimeOverError):
        rounds(monkeypatch, Clock(0.0), inf, is_exact=False, is_solved=True)


def the_best_of(monkeypatch: pytest.MonkeyPatch, memory: float, *answers: tuple[Answer, bool]) -> tuple[Answer, int]:
    """What a search for the best gives of these answers, and how many of them it has looked at."""
    looked: list[Answer] = []

    def nearing(search: Any, most_cells: int, floor: float, count: int) -> Any:
        for one, is_final in answers if most_cells == NARROW else ():
            looked.append(one)
            yield one, is_final

    monkeypatch.setattr(module, "_nearer_and_nearer", nearing)
    return module._optimal(module._Search(None, (), Clock(), memory), 0.0), len(looked)


@pytest.mark.parametrize(
    ("memory", "answers", "wanted"),
    [
        # A final answer ends the search, though there is a gap; so does one without a gap.
        (inf, [(answer(3.0, 1.0), True), (answer(2.0, 2.0), False)], (answer(3.0, 1.0), 1)),
        (inf, [(answer(3.0, 3.0), False), (answer(2.0, 2.0), False)], (answer(3.0, 3.0), 1)),
        # The quickest has the highest bound of all, but none above itself.
        (inf, [(answer(3.0, 1.0), False), (answer(4.0, 2.0), True)], (answer(3.0, 2.0), 2)),
        (inf, [(answer(3.0, 1.0), False), (answer(4.0, 3.5), True)], (answer(3.0, 3.0), 2)),
        # What does not fit counts only where nothing does; then it is what needs the least.
        (5.0, [(answer(1.0, 0.5, 6.0), False), (answer(4.0, 2.0, 5.0), False)], (answer(4.0, 2.0, 5.0), 2)),
        (5.0, [(answer(1.0, 0.5, 7.0), False), (answer(4.0, 2.0, 6.0), False)], (answer(4.0, 2.0, 6.0), 2)),
    ],
)
def test_the_best_of_all_rounds_is_the_answer(
    memory: float, answers: list[tuple[Answer, bool]], wanted: tuple[Answer, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert the_best_of(monkeypatch, memory, *answers) == wanted


@pytest.mark.parametrize(
    ("cells", "bounds", "bound", "is_solved"),
    [
        (1 << 10, True, 3.0, True),
        # Where the sum of the tables is no bound, only what the machine can do at most is one.
        (1 << 10, False, 0.25, True),
        # A choice is guessed, and apart the tables promise 0 and 0.
        (1, True, 0.0, False),
    ],
)
def test_an_answer_has_the_bound_of_its_problem_if_that_is_one(
    cells: int, bounds: bool, bound: float, is_solved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, other = (Node(ops.ReLU(), name, ()) for name in ("one", "other"))
    choices = tuple(Choice(one, (((1, 1),), ((2, 1),))) for one in (node, other))
    views = whole_view(0, 2), whole_view(1, 2)
    tables = tuple(Table(views, np.array(values)) for values in ([[0.0, 4.0], [4.0, 0.0]], [[3.0, 0.0], [0.0, 3.0]]))
    problem = Problem(choices, tables, (), (), exact=False, bounds=bounds)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    told = SimpleNamespace(choices=choices, memory=inf, clock=Clock(), answer=lambda *given: given)
    (strategies, of_answer), options, solved = module._eliminated(told, problem, cells, 0.25, Repeats())
    assert (options, of_answer, solved) == ((0, 0), bound, is_solved)
    assert strategies == {node: ((1, 1),), other: ((1, 1),)}


@pytest.mark.parametrize("mode", ["recursive_programming", "sharding_propagation"])
def test_quick_searches_keep_a_memory_limit_with_what_they_price_themselves(mode: str) -> None:
    task = task_of(Drawn(8, 3), 4)
    free = module.search(task, mode)
    problem = problem_of(task, choices_of(task.graph, task.given, 4), Clock())
    views = [whole_view(*pair) for pair in enumerate(problem.counts)]
    sizes = sum((table.over(views) for table in problem.memory), np.zeros(problem.counts))
    seconds = sum((table.over(views) for table in problem.seconds), np.zeros(problem.counts))
    limit = (free.memory + sizes.min()) / 2
    found = module.search(task, mode, memory=limit)
    assert found.memory <= limit < free.memory
    assert found.seconds == pytest.approx(task.cost(found.strategies).seconds)
    assert seconds[sizes <= limit].min() * (1 - 1e-9) <= found.seconds
    assert found.bound <= found.seconds
    # Each method finds something that fits, and not only the batch that any search begins with.
    (method, *_) = reversed(module.MODES[mode])
    own = method(module._Search(task, choices_of(task.graph, task.given, 4), Clock(), limit), 0.0)
    assert own.memory <= limit
    assert own.strategies
