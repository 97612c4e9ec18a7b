"""Elimination against the sum of all tables, written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.search.methods.dominance import undominated
from mpiparallel.search.methods.elimination import eliminate, lower_bound
from mpiparallel.search.methods.memory_bound import Priced, within_memory
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.views import Table, View, whole_view


@st.composite
def sums(draw):
    """Some tables over choices of two to four options, each of which sees of a choice what it likes."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = generator.integers(2, 5, draw(st.integers(1, 5))).tolist()
    tables = []
    for _ in range(draw(st.integers(1, 7))):
        scope = np.flatnonzero(generator.random(len(counts)) < 0.5).tolist()
        views = tuple(_seen(generator, choice, counts[choice]) for choice in scope)
        values = generator.integers(0, 20, [view.count for view in views]).astype(float)
        values[generator.random(values.shape) < 0.05] = np.inf
        tables.append(Table(views, values))
    return tables, counts


def _seen(generator, choice, options):
    known: dict[int, int] = {}
    drawn = generator.integers(0, options, options).tolist()
    return View(choice, np.array([known.setdefault(one, len(known)) for one in drawn]))


def written_out(tables, counts):
    return sum((table.over([whole_view(*pair) for pair in enumerate(counts)]) for table in tables), np.zeros(counts))


@given(sums())
def test_elimination_finds_the_cheapest_of_all_options(case) -> None:
    tables, counts = case
    whole = written_out(tables, counts)
    found = eliminate(tables, counts, 1 << 20, Repeats())
    assert found.exact
    assert found.cost == whole[found.options] == whole.min()


@given(sums())
def test_options_that_others_are_never_dearer_than_go_and_the_least_cost_stays(case) -> None:
    tables, counts = case
    whole = written_out(tables, counts)
    left = undominated(tables, counts, Repeats())
    assert written_out(left.tables, left.counts).min() == whole.min() == whole[np.ix_(*left.kept)].min()


def test_the_option_that_is_dearer_whatever_else_is_chosen_goes() -> None:
    tables = [Table((whole_view(0, 3),), np.array([1.0, 2.0, 0.0])), Table((whole_view(1, 2),), np.array([1.0, 1.0]))]
    tables.append(Table((whole_view(0, 3), whole_view(1, 2)), np.array([[0.0, 0.0], [0.0, 0.0], [5.0, 0.0]])))
    assert [one.tolist() for one in undominated(tables, (3, 2), Repeats()).kept] == [[2], [1]]


@given(sums(), st.integers(1, 30))
def test_with_small_tables_the_cost_is_that_of_the_options_and_the_bound_is_below_all(case, most_cells) -> None:
    tables, counts = case
    whole = written_out(tables, counts)
    found = eliminate(tables, counts, most_cells, Repeats())
    assert found.cost == whole[found.options]
    assert lower_bound(tables, counts, most_cells) <= whole.min() <= found.cost


def test_what_is_guessed_is_not_called_exact() -> None:
    views = (whole_view(0, 2), whole_view(1, 3))
    tables = [Table(views, np.arange(6.0).reshape(2, 3))]
    assert eliminate(tables, (2, 3), 6, Repeats()).exact
    assert not eliminate(tables, (2, 3), 5, Repeats()).exact
    assert not eliminate(tables, (2, 3), 1 << 20, Repeats(), in_time=lambda: False).exact


def test_a_bound_decides_tables_together_as_long_as_they_have_no_more_cells_than_they_may() -> None:
    views = (whole_view(0, 2), whole_view(1, 3))
    tables = [
        Table(views, np.array([[0.0, 5.0, 5.0], [5.0, 5.0, 5.0]])),
        Table(views, np.arange(9.0, 3.0, -1).reshape(2, 3)),
    ]
    # The least of the sum; apart, [0, 5, 5] + [6, 5, 4] are left of the columns.
    assert [lower_bound(tables, (2, 3), cells) for cells in (7, 6, 5)] == [9.0, 9.0, 6.0]


PLANS = ((1.0, 9.0), (2.0, 6.0), (2.5, 5.5), (5.0, 2.0))
"""The seconds and bytes of some plans."""


def cheapest(price: float) -> Priced:
    place = min(range(len(PLANS)), key=lambda one: PLANS[one][0] + price * PLANS[one][1])
    seconds, size = PLANS[place]
    return Priced((place,), seconds, size, seconds + price * size)


@pytest.mark.parametrize(("limit", "place"), [(10, 0), (9, 0), (7, 1), (2, 3)])
def test_a_price_of_memory_leads_to_a_plan_that_fits_and_to_a_bound_below_it(limit, place) -> None:
    found, bound = within_memory(cheapest, limit)
    assert found.options == (place,)
    assert bound <= PLANS[place][0] + 1e-9


@pytest.mark.parametrize("limit", [2, 3, 6, 7, 13, 19])
def test_of_many_plans_the_quickest_that_fits_is_found(limit) -> None:
    def solve(price: float) -> Priced:
        seconds, size = min(((20.0 / one, one) for one in range(1, 21)), key=lambda plan: plan[0] + price * plan[1])
        return Priced((size,), seconds, size, seconds + price * size)

    assert within_memory(solve, limit)[0].options == (limit,)


def test_where_nothing_fits_it_is_the_plan_that_needs_least() -> None:
    assert within_memory(cheapest, 1.0)[0].options == (3,)


@pytest.mark.parametrize(("calls", "place"), [(0, 0), (1, 3)])
def test_when_the_time_is_over_it_is_what_has_been_found_that_needs_least(calls, place) -> None:
    left = iter([True] * calls + [False] * 30)
    found, bound = within_memory(lambda price: cheapest(100 * price), 1.0, lambda: next(left))
    assert found.options == (place,)
    assert bound < np.inf
