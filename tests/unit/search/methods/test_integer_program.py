"""The integer program against all strategies, one by one, where the price of a byte leaves a gap."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel.search.methods import integer_program, optimal
from mpiparallel.search.methods.integer_program import programmed
from mpiparallel.search.problem.choices import choices_of
from mpiparallel.search.problem.clock import Clock
from mpiparallel.search.problem.problem import problem_of
from mpiparallel.search.problem.views import whole_view
from mpiparallel.search.search import search
from tests.conformance.searched_networks import Drawn, task_of


def limited(seed, part):
    """A drawn network, its problem, a limit between the least bytes and those of the quickest, the best within it."""
    task = task_of(Drawn(seed, 3), 4)
    problem = problem_of(task, choices_of(task.graph, task.given, 4), Clock())
    views = [whole_view(*pair) for pair in enumerate(problem.counts)]
    seconds, sizes = (
        sum((table.over(views) for table in tables), np.zeros(problem.counts))
        for tables in (problem.seconds, problem.memory)
    )
    limit = sizes.min() + part * (sizes.ravel()[seconds.argmin()] - sizes.min())
    return task, problem, limit, seconds[sizes <= limit].min()


@pytest.mark.parametrize(("seed", "part"), [(1, 0.7), (8, 0.3), (9, 0.7)])
def test_the_best_within_a_limit_is_found_and_proven_where_a_price_of_bytes_leaves_a_gap(
    seed, part, monkeypatch
) -> None:
    task, _, limit, best = limited(seed, part)
    found = search(task, "optimal", memory=limit)
    assert found.memory <= limit
    assert found.seconds == pytest.approx(best, rel=1e-9)
    assert found.gap == pytest.approx(0, abs=1e-6)
    monkeypatch.setattr(optimal, "programmed", lambda *_: None)
    assert search(task, "optimal", memory=limit).gap > 1e-2


@pytest.mark.parametrize("wrong", ["too large", "cheaper than it is", "no answer"])
def test_an_answer_of_the_solver_that_is_not_what_it_says_is_not_taken(wrong, monkeypatch) -> None:
    import scipy.optimize

    _, problem, limit, best = limited(8, 0.3)
    solve = scipy.optimize.milp
    assert programmed(problem, limit).seconds == pytest.approx(best)

    answers = []

    def lying(*arguments, **settings):
        told = solve(*arguments, **settings)
        spoilt = {
            # What the quickest options of all need is above the limit.
            "too large": lambda: solve(arguments[0], **{**settings, "constraints": _without_limit(settings)}),
            "cheaper than it is": lambda: SimpleNamespace(**{**told, "fun": told.fun * 0.9}),
            "no answer": lambda: SimpleNamespace(**{**told, "status": 1}),
        }
        answers.append(spoilt[wrong]())
        return answers[-1]

    monkeypatch.setattr(scipy.optimize, "milp", lying)
    assert programmed(problem, limit) is None
    assert len(answers) == 1


def _without_limit(settings):
    told = settings["constraints"]
    return type(told)(told.A, told.lb, np.r_[told.ub[:-1], np.inf])


def test_without_scipy_without_time_and_of_too_many_cells_there_is_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    _, problem, limit, _ = limited(1, 0.7)
    cells = sum(table.values.size for table in (*problem.seconds, *problem.memory))
    assert programmed(problem, limit) is not None
    assert programmed(problem, limit, 0.0) is None
    monkeypatch.setattr(integer_program, "_MOST_CELLS", cells)
    assert programmed(problem, limit) is not None
    monkeypatch.setattr(integer_program, "_MOST_CELLS", cells - 1)
    assert programmed(problem, limit) is None
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert programmed(problem, limit) is None
