"""The search among plans: what it tries, in which order, and what it says where nothing is found."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.errors import ConfigurationError, MpiParallelError, StrategyError
from mpiparallel.train.full_search.plan_search import best_of
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.full_search.trials import PricedPlan, Trials

ONE = Plan(4)
STAGED = [Plan(4, 2, micro_batches=count) for count in (2, 4, 8)]


class Tried(SimpleNamespace):
    """Stands for ``Trials``: notes what is tried. Plans take the given seconds and bytes, and a tenth by estimate."""

    with_scratch: frozenset[str] = frozenset()

    def __init__(self, seconds: dict[Plan, float], bytes_of: dict[Plan, int] | None = None) -> None:
        super().__init__(seconds=seconds, bytes_of=bytes_of or {}, noted=[])

    def eased(self, plan: Plan, limit: float) -> Plan:
        return plan

    def estimate(self, plan: Plan) -> Any:
        return SimpleNamespace(seconds=self.seconds.get(plan, inf) / 10, bytes=self.bytes_of.get(plan, 1.0))

    def tried(self, plan: Plan, mode: str, limit: float = inf) -> PricedPlan | None:
        self.noted.append((plan, mode))
        seconds = self.seconds.get(plan)
        return None if seconds is None else PricedPlan(plan, seconds, self.bytes_of.get(plan, 1))

    def floor(self, stages: int) -> float:
        return 0.5

    def nodes(self, plan: Plan) -> int:
        return 1


class Times:
    """A clock that has time so many times."""

    def __init__(self, count: float) -> None:
        self.left = count

    def has_time(self) -> bool:
        self.left -= 1
        return self.left >= 0


def search(trials: Tried, plans: list[Plan], times: float = inf, limit: float = 10.0) -> Any:
    return best_of(trials, plans, limit, Times(times))  # type: ignore[arg-type]


def test_where_no_plan_can_be_laid_out_the_user_is_told_what_to_set() -> None:
    with pytest.raises(ConfigurationError) as raised:
        search(Tried({}), [ONE, *STAGED])
    assert str(raised.value) == (
        "auto_parallel_search_mode 'everything': no plan can be laid out; set pipeline_stages and micro_size"
    )


def test_the_quickest_that_fits_is_found_and_stages_are_tried_by_their_estimates() -> None:
    trials = Tried({ONE: 4.0, STAGED[0]: 3.0, STAGED[1]: 2.0, STAGED[2]: 1.0}, {STAGED[2]: 11})
    found = search(trials, [ONE, *STAGED])
    assert (found.tried.plan, found.bound) == (STAGED[1], 0.5)
    order = [plan for plan, _ in trials.noted if plan.stages > 1]
    assert list(dict.fromkeys(order)) == [STAGED[1], STAGED[0], STAGED[2]]


def test_a_search_whose_time_is_over_tries_no_more_and_gives_the_best_so_far() -> None:
    counts = []
    for times in range(20):
        trials = Tried({ONE: 4.0, STAGED[0]: 3.0, STAGED[1]: 2.0, STAGED[2]: 1.0})
        found = search(trials, [ONE, *STAGED], times)
        seconds = [trials.seconds[plan] for plan, _ in trials.noted]
        assert found.tried.seconds == min(seconds)
        assert found.count == len(seconds)
        counts.append(len(seconds))
    assert counts == sorted(counts)
    assert set(counts) == {1, 2, 3, 4, 5, 6}


def test_what_a_network_refuses_in_micro_batches_is_no_plan_but_what_it_refuses_whole_is_an_error() -> None:
    def tried(plan: Plan, error: Exception) -> Any:
        def refuse(plan: Plan) -> None:
            raise error

        return Trials.tried(SimpleNamespace(_strategies=refuse), plan)  # type: ignore[arg-type]

    error = MpiParallelError("too few rows")
    assert tried(STAGED[0], error) is None
    with pytest.raises(MpiParallelError, match="too few rows"):
        tried(ONE, error)
    assert tried(ONE, StrategyError("no such cut")) is None
