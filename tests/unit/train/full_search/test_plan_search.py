"""The search among plans: what it tries, in which order, and what it says where nothing is found."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.errors import ConfigurationError, MpiParallelError, StrategyError
from mpiparallel.train.full_search.plan_search import best_of
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.full_search.trials import BATCH, BEST, HELD, PricedPlan, Trials

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


def test_where_nothing_fits_the_user_is_told_what_comes_closest_and_by_how_much() -> None:
    closest = Plan(4, 2, 2, "gpipe")
    sizes = {ONE: 2_500_000_000, closest: 1_250_000_000, STAGED[1]: 1_500_000_000, STAGED[2]: 3_000_000_000}
    trials = Tried({plan: float(number) for number, plan in enumerate(sizes, 1)}, sizes)
    with pytest.raises(ConfigurationError) as raised:
        search(trials, [*sizes], limit=1e9)
    assert str(raised.value) == (
        "auto_parallel_search_mode 'everything': a rank may need 1 GB, and nothing fits; what comes closest needs "
        "1.25 GB, 0.25 GB too much: 2 stages by gpipe, 2 micro-batches, nothing recomputed, without optimizer shards; "
        "take more ranks or a smaller batch"
    )


def test_what_needs_exactly_as_much_as_there_is_fits() -> None:
    found = search(Tried({ONE: 4.0, STAGED[0]: 3.0}, {ONE: 9, STAGED[0]: 10}), [ONE, STAGED[0]], limit=10.0)
    assert (found.tried.plan, found.count) == (STAGED[0], 4)
    found = search(Tried({ONE: 4.0, STAGED[0]: 3.0}, {ONE: 9, STAGED[0]: 11}), [ONE, STAGED[0]], limit=10.0)
    assert found.tried.plan == ONE


def test_of_plans_that_are_estimated_not_to_fit_those_that_need_least_are_tried_first() -> None:
    quick = {plan: float(seconds) for plan, seconds in zip(STAGED, (1, 2, 3), strict=True)}
    trials = Tried({ONE: 40.0, **quick}, {STAGED[0]: 30, STAGED[1]: 20, STAGED[2]: 5})
    search(trials, [ONE, *STAGED])
    order = [plan for plan, _ in trials.noted if plan.stages > 1]
    assert list(dict.fromkeys(order)) == [STAGED[2], STAGED[1], STAGED[0]]


def test_plans_that_are_estimated_much_slower_than_the_best_are_not_tried() -> None:
    # By estimate they take a tenth: 10 and 30, of which four fifths are 8 and 24.
    trials = Tried({ONE: 20.0, STAGED[0]: 100.0, STAGED[1]: 300.0})
    found = search(trials, [ONE, *STAGED[:2]])
    assert [plan for plan, _ in trials.noted if plan.stages > 1] == [STAGED[0]]
    assert (found.tried.plan, found.bound) == (ONE, 0.5)


class OneWay(Tried):
    """Plans take too much but by one way to find their strategies."""

    with_scratch = frozenset({"net/conv"})

    def __init__(self, way: str) -> None:
        super().__init__({ONE: 4.0}, {ONE: 30})
        self.way = way

    def tried(self, plan: Plan, mode: str, limit: float = inf) -> PricedPlan | None:
        found = super().tried(plan, mode, limit)
        # All but the batch's strategies are asked for within the limit.
        is_it = mode == self.way and (limit == 10.0 or mode == BATCH)
        return PricedPlan(plan, 7.0, 10) if is_it else found


@pytest.mark.parametrize("way", [BEST, HELD, BATCH])
def test_where_the_best_strategies_do_not_fit_those_within_the_limit_and_the_batchs_are_tried(way: str) -> None:
    found = search(OneWay(way), [ONE])
    assert (found.tried.seconds, found.tried.bytes) == (7.0, 10)


class Recomputing(Tried):
    """A plan of 20 bytes and 1 second by estimate, of which each layer that is recomputed takes 5 and 1 more.

    It takes ``more`` bytes than that.
    """

    def __init__(self, more: int) -> None:
        super().__init__({ONE: 1.0})
        self.more = more

    def eased(self, plan: Plan, limit: float) -> Plan:
        count = next((count for count in range(4) if 20 - 5 * count <= limit), 4)
        return replace(plan, recomputes=tuple(range(count)))

    def estimate(self, plan: Plan) -> Any:
        return SimpleNamespace(seconds=1.0, bytes=20 - 5 * len(plan.recomputes))

    def tried(self, plan: Plan, mode: str, limit: float = inf) -> PricedPlan | None:
        again = len(plan.recomputes)
        return PricedPlan(plan, 1.0 + again, 20 - 5 * again + self.more)


@pytest.mark.parametrize(
    ("more", "limit", "again"),
    [
        # By estimate nothing need be recomputed, though 24 bytes are too many: so one layer is.
        (4, 22, 1),
        # By estimate two layers are enough, though 14 bytes are too many.
        (4, 10, 3),
        # By estimate it takes two, of which one is not needed.
        (-6, 10, 1),
        (0, 10, 2),
        (0, 20, 0),
    ],
)
def test_as_few_layers_are_recomputed_as_what_was_tried_shows_to_be_needed(more: int, limit: int, again: int) -> None:
    found = search(Recomputing(more), [ONE], limit=limit)
    assert found.tried.plan.recomputes == tuple(range(again))
    assert found.tried.bytes <= limit


def test_where_all_plans_have_stages_the_plainest_alone_is_searched_for_its_best_strategies() -> None:
    trials = Tried({plan: float(seconds) for plan, seconds in zip(STAGED, (1, 2, 3), strict=True)})
    assert search(trials, list(STAGED)).tried.plan == STAGED[0]
    assert {plan for plan, mode in trials.noted if mode == BEST} == {STAGED[0]}


def test_no_bound_is_above_the_seconds_of_what_is_found() -> None:
    assert search(Tried({ONE: 0.25}), [ONE]).bound == 0.25


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
