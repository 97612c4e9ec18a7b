"""The best strategies there are, and quick ones over the same tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mpiparallel.search.methods.elimination import eliminate, lower_bound
from mpiparallel.search.methods.integer_program import programmed
from mpiparallel.search.methods.memory_bound import Priced, within_memory
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.problem import Problem
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.views import Table

_BOUNDING: Final = 1 << 21
"""The cells of the largest table for a bound: where it is needed at all, larger ones take minutes for a little more."""


def solve_by_elimination(
    problem: Problem, most_cells: int, limit: float, clock: Clock, repeats: Repeats
) -> tuple[Priced, float]:
    """Return the options of a problem within a limit of bytes, and a bound; exact if tables have few enough cells.

    Where the price of a byte leaves a gap, an integer program closes it, if it is small enough. ``repeats`` has what
    problems have in common that are solved one after the other.
    """

    def solve(price: float) -> Priced:
        tables = priced_tables(problem, price)
        found = eliminate(tables, problem.counts, most_cells, Repeats() if price else repeats, clock.has_time)
        bound = found.cost if found.exact else lower_bound(tables, problem.counts, min(most_cells, _BOUNDING))
        return Priced(found.options, problem.cost(found.options), problem.bytes(found.options), bound)

    found, bound = within_memory(solve, limit, clock.has_time)
    if found.bytes <= limit and found.seconds > bound:
        better = programmed(problem, limit, clock.seconds_left)
        if better is not None:
            return better, max(bound, better.bound)
    return found, bound


def priced_tables(problem: Problem, price: float) -> Sequence[Table]:
    """Return the seconds of a problem, with the bytes of memory at a price."""
    if not price:
        return problem.seconds
    # Arrays that tables share stay shared, so that what repeats is still seen to.
    priced = {id(table.values): table.values * price for table in problem.memory}
    return (*problem.seconds, *(Table(table.views, priced[id(table.values)]) for table in problem.memory))
