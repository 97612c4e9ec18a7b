"""Tables with bytes at a price, what is guessed where tables are too large, and bounds, on problems made by hand."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.graph.graph import Node
from mpiparallel.search.methods.dominance import undominated
from mpiparallel.search.methods.elimination import eliminate, lower_bound
from mpiparallel.search.methods.memory_bound import Priced, within_memory
from mpiparallel.search.methods.optimal import priced_tables, solve_by_elimination
from mpiparallel.search.problem.choices import Choice
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.problem import Problem
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.views import Table, View, whole_view


def table(choices: tuple[int, ...], values: Any) -> Table:
    array = np.array(values, float)
    return Table(tuple(whole_view(one, count) for one, count in zip(choices, array.shape, strict=True)), array)


def problem(seconds: list[Table], memory: list[Table], *counts: int) -> Problem:
    options = [tuple(((1, place + 1),) for place in range(count)) for count in counts]
    choices = tuple(Choice(Node(ops.ReLU(), "one", ()), of) for of in options)
    return Problem(choices, tuple(seconds[:1]), tuple(seconds[1:]), tuple(memory), exact=True)


SECONDS = [table((0,), [1.0, 4.0]), table((0, 1), [[0.0, 2.0], [2.0, 0.0]])]
MEMORY = [table((0,), [8.0, 2.0]), table((1,), [1.0, 1.0])]


def test_a_problem_tells_the_seconds_and_bytes_of_options_and_their_strategies() -> None:
    found = problem(SECONDS, MEMORY, 2, 2)
    assert found.counts == (2, 2)
    assert [found.cost(options) for options in ((0, 0), (0, 1), (1, 0), (1, 1))] == [1.0, 3.0, 6.0, 4.0]
    assert [found.bytes(options) for options in ((0, 0), (1, 1))] == [9.0, 3.0]
    assert [*found.strategies((0, 1)).values()] == [((1, 1),), ((1, 2),)]


def test_bytes_have_a_price_and_arrays_that_tables_share_stay_shared() -> None:
    shared = np.array([3.0, 5.0])
    memory = [Table((whole_view(place, 2),), shared) for place in range(2)]
    found = problem(SECONDS, memory, 2, 2)
    assert priced_tables(found, 0.0) == tuple(SECONDS)
    one, other = priced_tables(found, 2.0)[2:]
    assert one.values is other.values
    assert one.values.tolist() == [6.0, 10.0]
    assert (one.choices, other.choices) == ((0,), (1,))


@pytest.mark.parametrize(
    ("limit", "options", "bound"),
    [(inf, (0, 0), 1.0), (9.0, (0, 0), 1.0), (8.9, (1, 1), 4.0), (3.0, (1, 1), 4.0)],
)
def test_the_quickest_that_fits_is_found_with_a_bound_that_it_reaches(
    limit: float, options: tuple[int, ...], bound: float
) -> None:
    found, told = solve_by_elimination(problem(SECONDS, MEMORY, 2, 2), 1 << 10, limit, Clock(), Repeats())
    assert found.options == options
    assert told == pytest.approx(bound)
    assert (found.seconds, found.bytes) == (bound, 9.0 if options == (0, 0) else 3.0)


def test_where_a_table_is_too_large_the_choice_of_most_tables_takes_what_promises_most() -> None:
    """The second choice stands in three tables; by itself its second option promises 0 + 0 + 1."""
    tables = [
        table((0, 1), [[5.0, 0.0], [2.0, 9.0]]),
        table((1, 2), [[0.0, 0.0], [0.0, 7.0]]),
        table((1,), [0.0, 1.0]),
        table((0, 2), [[0.0, 4.0], [0.0, 0.0]]),
    ]
    found = eliminate(tables, (2, 2, 2), 1, Repeats())
    # 0 + 0 + 1 + 0: the first alone promises 2 + 0 + 0.
    assert (found.options, found.cost, found.exact) == ((0, 1, 0), 1.0, False)


def test_of_choices_with_as_many_tables_the_first_is_guessed_and_of_equal_options_the_first_taken() -> None:
    both = table((0, 1), [[1.0, 1.0], [1.0, 0.0]])
    found = eliminate([both, table((0,), [0.0, 1.0]), table((1,), [0.0, 0.0])], (2, 2), 1, Repeats())
    # The first promises 1 + 0 and 0 + 1, so it takes its first option, though with the other both are the same.
    assert (found.options, found.cost) == ((0, 0), 1.0)


def test_a_bound_takes_apart_what_is_too_large_and_is_exact_where_it_is_not() -> None:
    tables = [table((0, 1), [[0.0, 4.0], [4.0, 0.0]]), table((0, 1), [[3.0, 0.0], [0.0, 3.0]]), table((), 5.0)]
    # Together each option costs 3 or 4; apart each table has a 0.
    assert lower_bound(tables, (2, 2), 4) == 8.0
    assert lower_bound(tables, (2, 2), 3) == 5.0
    assert lower_bound([], (2, 2), 1) == 0.0


def test_options_that_are_dearer_with_each_other_choice_go_and_those_that_cannot_be_are_no_better() -> None:
    views = (View(0, np.array([0, 1, 1])), whole_view(1, 2))
    tables = [Table(views, np.array([[1.0, inf], [1.0, 2.0]])), table((0,), [1.0, 1.0, 0.0])]
    left = undominated(tables, (3, 2), Repeats())
    # The third costs less than the first and the second whatever else is chosen; so the other choice's first is best.
    assert [kept.tolist() for kept in left.kept] == [[2], [0]]
    assert left.counts == (1, 1)


def test_a_price_grows_until_what_it_chooses_fits_and_then_is_drawn_near() -> None:
    asked: list[float] = []

    def solve(price: float) -> Priced:
        asked.append(price)
        fits = price >= 5.0
        return Priced((int(fits),), 2.0 + fits, 1.0 if fits else 2.0, 2.0 + price)

    found, bound = within_memory(solve, 1.0)
    assert found.options == (1,)
    # First nothing, then a second for each byte, and four times as much each time.
    assert asked[:4] == [0.0, 1.0, 4.0, 16.0]
    assert asked[4:6] == [10.0, 7.0]
    assert asked[-1] == pytest.approx(5.0, rel=0.02)
    assert bound == max([2.0, *(2.0 + price - price for price in asked[1:])])
