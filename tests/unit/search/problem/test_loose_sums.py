"""What each term of a sum costs at least, against sums made by hand."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.graph import Graph
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Link, Machine
from mpiparallel.search.problem.loose_sums import LooseSum, term_at_least
from mpiparallel.search.problem.symbol import Symbol, made_symbol
from mpiparallel.search.problem.views import whole_view

RANKS = DeviceMatrix((4,))
SPEC = TensorSpec((4, 4), np.dtype(np.float32))
WHOLE, ROWS = Layout((4, 4), RANKS, ((), ())), Layout((4, 4), RANKS, ((0,), ()))
TERM, LARGEST = (Layout((4, 4), RANKS, ((), ()), (0,), kind) for kind in ("sum", "max"))
SUMMED, GATHERED, ADDED, ADDED_ROWS = 96.0, 48.0, 16.0, 4.0
"""Seconds to sum 64 bytes of all ranks, to gather them, and to add 16 numbers, or the four of a row."""
PRICES = Prices(
    Machine(
        ranks_per_host=4,
        inside=Link(0.0, 1.0),
        reduction_rate=inf,
        operation_rate=1.0,
        memory_bandwidth=inf,
        launch=0.0,
    )
)


def a_sum(count: int) -> LooseSum:
    graph = Graph()
    terms = tuple(graph.add_input(str(place), SPEC) for place in range(count))
    return LooseSum(terms, graph.add_node(ops.Add(), "last", terms[:2], [SPEC]))


def at_least(own: Layout, at: Layout, place: int, count: int, is_closed: bool) -> float:
    found = term_at_least(a_sum(count), place, Symbol.always(own), Symbol.always(at), is_closed, PRICES)
    return float(found.at(()))


@pytest.mark.parametrize(
    ("own", "at", "place", "wanted"),
    [
        # The first is there, each other is added to it.
        (ROWS, ROWS, 0, 0.0),
        (ROWS, ROWS, 1, ADDED_ROWS),
        (ROWS, WHOLE, 0, GATHERED),
        (ROWS, WHOLE, 1, GATHERED + ADDED),
        # Only terms of a sum stay so while they are added.
        (LARGEST, WHOLE, 1, SUMMED + ADDED),
    ],
)
@pytest.mark.parametrize("is_closed", [True, False])
def test_what_is_no_term_is_moved_to_where_it_is_added(
    own: Layout, at: Layout, place: int, wanted: float, is_closed: bool
) -> None:
    assert at_least(own, at, place, 2, is_closed) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("place", "count", "is_closed", "wanted"),
    [
        # Two that are alike are added once and summed over the ranks once, which they share.
        (0, 2, True, (ADDED + SUMMED) / 2),
        (1, 2, True, (ADDED + SUMMED) / 2),
        # Where nobody says that the total is wanted there, nothing is said of its move.
        (0, 2, False, ADDED / 2),
        (1, 2, False, ADDED / 2),
        # Of three the last counts only where all are alike.
        (0, 3, True, (2 * ADDED + SUMMED) / 3),
        (1, 3, True, (2 * ADDED + SUMMED) / 3),
        (2, 3, True, (2 * ADDED + SUMMED) / 3),
        (1, 3, False, 2 * ADDED / 3),
        (2, 3, False, 2 * ADDED / 3),
    ],
)
def test_terms_that_are_alike_share_one_sum_over_the_ranks(
    place: int, count: int, is_closed: bool, wanted: float
) -> None:
    assert at_least(TERM, WHOLE, place, count, is_closed) == pytest.approx(wanted)


def test_all_terms_together_cost_what_their_sum_costs_where_all_are_alike() -> None:
    for count in (2, 3, 5):
        told = sum(at_least(TERM, WHOLE, place, count, True) for place in range(count))
        assert told == pytest.approx((count - 1) * ADDED + SUMMED)


def test_a_term_costs_by_where_it_is_and_where_the_sum_is() -> None:
    own = made_symbol((whole_view(3, 2),), np.arange(2), [ROWS, TERM])
    at = made_symbol((whole_view(7, 2),), np.arange(2), [ROWS, WHOLE])
    found = term_at_least(a_sum(2), 1, own, at, True, PRICES)
    assert found.choices == (3, 7)
    told = {(one, other): float(found.at([0] * 3 + [one] + [0] * 3 + [other])) for one in (0, 1) for other in (0, 1)}
    assert told == {
        (0, 0): ADDED_ROWS,
        (0, 1): GATHERED + ADDED,
        # Summed and cut at once, half as much is moved.
        (1, 0): pytest.approx((ADDED + SUMMED / 2) / 2),
        (1, 1): pytest.approx((ADDED + SUMMED) / 2),
    }
