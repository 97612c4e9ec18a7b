"""How plans are tried: between which micro-batches they are estimated, by which searches, and within which bytes."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.errors import ShapeError
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.machine.machine import Link, Machine
from mpiparallel.search.problem.clock import Clock
from mpiparallel.train.full_search import trials as trials_module
from mpiparallel.train.full_search.plan_search import best_of
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.full_search.trials import BATCH, BEST, HELD, QUICK, PricedPlan, Trials
from tests.unit.train.full_search.test_profile import FREE, trials_of

EVEN = Machine(products=((1.0, 1e9),), launch=1e-6, inside=Link(1e-6, 1e9))
"""On which what an operator takes grows with its rows, from some seconds on."""


def staged(count: int, shards: bool = False) -> Plan:
    return Plan(4, 2, count, "gpipe", shards=shards)


def test_what_micro_batches_between_the_fewest_and_the_most_take_is_estimated_as_if_they_were_laid_out() -> None:
    several = trials_of(EVEN, *map(staged, (2, 4, 8)))
    for count, shards in ((4, False), (4, True), (8, False)):
        plan = staged(count, shards)
        assert several.estimate(plan) == pytest.approx(trials_of(EVEN, plan).estimate(plan), rel=1e-12)
    # Shards are of what a rank holds.
    assert several.estimate(staged(4, True)).bytes < several.estimate(staged(4)).bytes
    # The two ranks of a stage share out its weights.
    plan = staged(2, True)
    assert trials_of(FREE, plan)._profile(plan).trained.sum() == 4 * (86 + 18 + 4) / 2


@pytest.mark.parametrize(
    ("places", "forward", "backward", "updates"),
    [
        # Forward the layers take 6, 2 and 1, and what is in none 3; backward 11, 3, 1 and 4. Four weights of the first
        # are updated, two of each other, and a counter.
        ((0, 0, 1), (6 + 2, 1 + 3), (11 + 3, 1 + 4), 4 + 2),
        ((0, 1, 1), (6, 2 + 1 + 3), (11, 3 + 1 + 4), 2 + 2 + 1),
    ],
)
def test_layers_are_estimated_in_the_stages_that_the_user_has_put_them_into(
    places: tuple[int, ...], forward: tuple[int, int], backward: tuple[int, int], updates: int
) -> None:
    plan = Plan(2, 2, 2, "gpipe")
    # The first stage is no quicker than the second. It waits once for that one's pass forward, and for the half of the
    # pass backward that gives the gradient of what it has sent.
    seconds = 2 * (forward[0] + backward[0]) + forward[1] + backward[1] / 2 + updates
    assert trials_of(FREE, plan, places=places).estimate(plan).seconds == pytest.approx(seconds)


def test_where_messages_cost_much_all_ranks_do_all_the_work_and_by_the_batch_gradients_are_summed() -> None:
    trials = trials_of(FREE, Plan(2))
    best, batch, alone = (
        trials.tried(Plan(2), BEST),
        trials.tried(Plan(2), BATCH),
        trials_of(FREE, Plan(1)).tried(Plan(1)),
    )
    assert best is not None
    assert batch is not None
    assert alone is not None
    # Each of the 40 operators takes a second, however much of it a rank does.
    assert best.seconds == alone.seconds == 40
    assert 0 < best.bound <= 40
    assert best.plan.strategies
    assert not alone.plan.strategies
    assert batch.seconds > 40 + 100


@pytest.mark.parametrize(("counted", "bound"), [(10.0, 9.0), (12.0, 9.0), (10.0 - 1e-9, 9.0), (9.5, 0.0)])
def test_a_bound_counts_where_the_search_has_counted_no_more_than_the_plan_takes(
    counted: float, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials_module, "counted_seconds", lambda staged, prices: counted)
    fullest = SimpleNamespace(memory=SimpleNamespace(total=7))
    monkeypatch.setattr(trials_module, "make_forecast", lambda *given: SimpleNamespace(fullest=fullest))
    function = SimpleNamespace(staged=lambda configuration: None)
    trials: Any = SimpleNamespace(_configuration=ParallelConfiguration(), _prices=None, _function=lambda plan: function)
    found: Any = SimpleNamespace(strategies={"net/MatMul": ((2, 1), (1, 1))}, seconds=10.0, bound=9.0)
    priced = Trials._priced(trials, Plan(2), found)
    assert (priced.seconds, priced.bytes, priced.bound) == (counted, 7, bound)
    assert priced.plan.strategies == found.strategies


def test_micro_batches_that_the_network_does_not_take_have_no_estimate_and_leave_that_of_the_others() -> None:
    # Of 16 rows, 8 micro-batches have too few.
    trials = trials_of(EVEN, *map(staged, (2, 4, 8)), least=4)
    assert trials.estimate(staged(8)) == (inf, inf)
    assert trials.eased(staged(8), 0.0) == staged(8)
    assert trials.tried(staged(8)) is None
    wanted = trials_of(EVEN, staged(4)).estimate(staged(4))
    assert trials.estimate(staged(4)) == pytest.approx(wanted, rel=1e-12)


def test_where_a_network_takes_its_batch_in_one_piece_alone_no_plan_has_stages_but_what_is_wrong_is_told() -> None:
    trials = trials_of(EVEN, Plan(4), staged(2), staged(4), least=16)
    assert trials.estimate(staged(2)) == (inf, inf)
    assert trials.floor(2) == inf
    found = best_of(trials, [Plan(4), staged(2), staged(4)], inf, Clock())
    assert found.tried.plan == Plan(4)
    assert 0 < found.bound <= found.tried.seconds
    with pytest.raises(ShapeError, match="fewer than 17 rows"):
        trials_of(EVEN, staged(2), staged(4), least=17).floor(2)


def test_a_plan_has_the_nodes_of_one_micro_batch_as_often_as_there_are_micro_batches() -> None:
    trials = trials_of(EVEN, Plan(2))
    # 12 of the network, 19 of its gradient, 8 weights and a counter that are updated, and what shows memory only.
    count = trials.nodes(Plan(2))
    assert 40 <= count < 50
    assert [trials.nodes(Plan(2, 2, micro_batches)) for micro_batches in (2, 4)] == [2 * count, 4 * count]
    # Of all operators here, the norm alone needs more memory than its inputs and outputs.
    assert trials.with_scratch == {"network/_backbone/2/LayerNorm"}


class Searches(SimpleNamespace):
    """Stands for ``Trials``: searches keep so many bytes each; the compiler counts ``more`` than that."""

    def __init__(self, kept: list[int], more: int, times: float = inf) -> None:
        super().__init__(kept=kept, more=more, asked=[], _clock=self, times=times)

    def has_time(self) -> bool:
        self.times -= 1
        return self.times >= 0

    def _strategies(self, plan: Plan) -> Any:
        return self._searched(plan, QUICK, inf)

    def _searched(self, plan: Plan, mode: str, limit: float) -> Any:
        self.asked.append((mode, limit))
        return SimpleNamespace(bytes=self.kept[len(self.asked) - 1])

    def _priced(self, plan: Plan, found: Any) -> PricedPlan:
        return PricedPlan(plan, 1.0, found.bytes + self.more)

    def _narrowed(self, *given: Any) -> PricedPlan:
        return Trials._narrowed(self, *given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trials", "within", "found"),
    [
        # What fits into 1,000 bytes is taken.
        (Searches([1000], 0), [1000], 1000),
        # It takes 100 too many: 102 less are looked for. So it goes on, three times at most.
        (Searches([1000, 898], 100), [1000, 898], 998),
        (Searches([1000, 950, 900, 850, 800], 900), [1000, 82, 83, 84], 1750),
        # What takes no less is not taken, and is the last.
        (Searches([1000, 1000, 1000], 100), [1000, 898], 1100),
        (Searches([1000, 1200, 1000], 100), [1000, 898], 1100),
        # Nothing is looked for that keeps nothing at all.
        (Searches([1000], 2000), [1000], 3000),
        (Searches([1020], 980), [1000], 2000),
        # Without time it is left at that.
        (Searches([1000, 898], 100, times=0), [1000], 1100),
        (Searches([1000, 950, 900], 900, times=1), [1000, 82], 1850),
    ],
)
def test_strategies_are_searched_within_less_until_what_the_compiler_counts_fits(
    trials: Searches, within: list[float], found: int
) -> None:
    tried = Trials.tried(trials, Plan(4), BEST, 1000)  # type: ignore[arg-type]
    assert trials.asked == [(BEST, pytest.approx(limit)) for limit in within]
    assert tried is not None
    assert tried.bytes == found


@pytest.mark.parametrize(
    ("plan", "mode", "limit", "asked"),
    [
        (Plan(4), QUICK, 1000, [(QUICK, inf)]),
        (Plan(4), BATCH, 1000, [(BATCH, 1000)]),
        (Plan(4), BEST, inf, [(BEST, inf)]),
        (Plan(4), HELD, 1000, [(HELD, 1000), (HELD, 898)]),
        # Of stages nobody knows which one it is that takes too much.
        (staged(4), BEST, 1000, [(BEST, 1000)]),
    ],
)
def test_only_the_best_strategies_of_a_network_in_one_piece_are_searched_anew_where_they_take_too_much(
    plan: Plan, mode: str, limit: float, asked: list[tuple[str, float]]
) -> None:
    trials = Searches([1000, 898], 100)
    Trials.tried(trials, plan, mode, limit)  # type: ignore[arg-type]
    assert trials.asked == asked
