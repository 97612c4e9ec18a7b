"""The four searches against all strategies, one by one, and against the plans that people make by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel import nn, ops
from mpiparallel.compile.strategies import Strategies
from mpiparallel.errors import ConfigurationError, StrategyError
from mpiparallel.search import search as search_module
from mpiparallel.search.machine.machine import Link, Machine
from mpiparallel.search.methods.answer import Answer
from mpiparallel.search.problem.choices import choices_of
from mpiparallel.search.problem.clock import Clock, TimeOverError
from mpiparallel.search.problem.folding import folding_of, tied
from mpiparallel.search.problem.likeness import likeness
from mpiparallel.search.problem.problem import NARROW, WIDE, problem_of
from mpiparallel.search.problem.views import whole_view
from mpiparallel.search.search import MODES, search
from tests.conformance.hand_plans import cut_by_hand, degrees
from tests.conformance.searched_networks import Drawn, Transformer, task_of, weight

FAMILY = [(seed, *size) for seed in range(300) for size in ((4, 8), (6, 4))]
SAMPLE = [(seed, *size) for seed in range(3) for size in ((3, 8), (4, 4))]


def problem(task):
    return problem_of(task, choices_of(task.graph, task.given, task.configuration.device_num), Clock())


def all_costs(task) -> np.ndarray:
    """The seconds of every strategy of every operator."""
    found = problem(task)
    views = [whole_view(*pair) for pair in enumerate(found.counts)]
    return sum((table.over(views) for table in found.seconds), np.zeros(found.counts))


def priced_one_by_one(task, seed, count=4):
    """The seconds of some drawn strategies, each laid out as it would run."""
    choices = choices_of(task.graph, task.given, task.configuration.device_num)
    draw = np.random.default_rng(seed)
    for _ in range(count):
        drawn_options = {choice.node: choice.options[int(draw.integers(len(choice.options)))] for choice in choices}
        try:
            yield task.cost(drawn_options).seconds
        except StrategyError:
            # Operators that share a parameter must cut it alike.
            yield inf


def drawn(seed, operators, ranks):
    """A drawn network whose sum at the end is one of its operators."""
    return task_of(Drawn(seed, operators - 1), ranks)


def hold_to_all_strategies(family) -> None:
    ratios = {mode: [] for mode in MODES}
    for case in family:
        task = drawn(*case)
        best = all_costs(task).min()
        assert min(priced_one_by_one(task, case[0])) >= best * (1 - 1e-9)
        for mode, of in ratios.items():
            of.append(search(task, mode).seconds / best)
    assert max(ratios["optimal"]) == pytest.approx(1, rel=1e-9)
    assert min(map(min, ratios.values())) == pytest.approx(1, rel=1e-9)
    assert median(ratios["dynamic_programming"]) <= 1.05
    assert median(ratios["recursive_programming"]) <= 1.15


def test_optimal_is_the_best_of_all_strategies_and_the_quick_ones_are_near() -> None:
    hold_to_all_strategies(SAMPLE)


@pytest.mark.slow
def test_optimal_is_the_best_of_all_strategies_for_the_whole_family() -> None:
    hold_to_all_strategies(FAMILY)


@pytest.mark.parametrize("wide", [1, WIDE])
def test_optimal_is_the_best_of_all_strategies_or_says_how_far_it_may_be_where_tables_are_small(
    wide, monkeypatch
) -> None:
    monkeypatch.setattr("mpiparallel.search.search.NARROW", 1)
    monkeypatch.setattr("mpiparallel.search.search.WIDE", wide)
    for case in SAMPLE:
        task = drawn(*case)
        best, found = all_costs(task).min(), search(task, "optimal")
        assert found.bound <= best * (1 + 1e-9)
        assert found.seconds == pytest.approx(best, rel=1e-9 if wide > 1 else found.gap + 1e-9)


@pytest.mark.parametrize("settings", [{}, {"enable_parallel_optimizer": True, "optimizer_threshold": 0}])
@pytest.mark.parametrize("mode", ["recursive_programming", "optimal"])
@pytest.mark.parametrize("shape", [{}, {"batch": 2, "length": 64, "width": 256, "inner": 1024}])
def test_a_transformer_is_never_dearer_than_by_batch_by_megatrons_cuts_or_by_both_with_shards_or_without(
    mode, settings, shape
) -> None:
    ranks, batch = 4, shape.get("batch", 8)
    found = search(task_of(Transformer(1, **shape), ranks, **settings), mode)
    plans = [task_of(Transformer(1, **shape), ranks, **settings)]
    # The quick search promises the first alone.
    for cuts in degrees(ranks, batch, 8) if mode == "optimal" else ():
        plans.append(task_of(cut_by_hand(Transformer(1, **shape), *cuts), ranks, **settings))
    assert found.seconds <= min(plan.cost({}).seconds for plan in plans) * (1 + 1e-9)


class TwoProducts(nn.Cell):
    """A perceptron."""

    def __init__(self, rows, width, inner):
        super().__init__()
        self.rows, self.width = rows, width
        self.wide_weight, self.narrow_weight = weight(width, inner), weight(inner, width)
        self.wide, self.narrow, self.relu = ops.MatMul(), ops.MatMul(), ops.ReLU()

    def construct(self, x):
        return self.narrow(self.relu(self.wide(x, self.wide_weight)), self.narrow_weight).sum()


def cuts(task, answer):
    """The strategies of operators by name, of those too that are left to the rules."""
    placements = task.placed(answer.strategies).placements
    return {node.name.split("/")[-1]: placed.strategy for node, placed in placements.items() if node.is_forward}


@pytest.mark.parametrize("mode", ["recursive_programming", "dynamic_programming", "optimal"])
def test_large_weights_are_cut_where_the_batch_is_small_and_the_batch_where_it_is_large(mode) -> None:
    task = task_of(TwoProducts(16, 1024, 4096), 4)
    found = cuts(task, search(task, mode))
    assert (found["MatMul"], found["MatMul-1"]) == (((1, 1), (1, 4)), ((1, 4), (4, 1)))
    task = task_of(TwoProducts(65536, 64, 64), 4)
    found = cuts(task, search(task, mode))
    assert (found["MatMul"], found["MatMul-1"]) == (((4, 1), (1, 1)),) * 2


@pytest.mark.parametrize("mode", ["recursive_programming", "dynamic_programming", "optimal"])
def test_a_dim_is_cut_into_uneven_parts_where_that_pays(mode) -> None:
    task = task_of(TwoProducts(65538, 64, 64), 4)
    answer = search(task, mode)
    found = cuts(task, answer)
    assert (found["MatMul"], found["MatMul-1"]) == (((4, 1), (1, 1)),) * 2
    even = {node: tuple(tuple(min(cut, 2) for cut in of) for of in one) for node, one in answer.strategies.items()}
    assert answer.seconds < task.cost(even).seconds


def test_of_many_layers_a_few_are_looked_at_and_what_is_found_is_as_good() -> None:
    task = task_of(Transformer(9), 4)
    choices = choices_of(task.graph, task.given, 4)
    folding = folding_of(task.live, likeness(task.graph, task.given, task.held))
    assert len(tied(choices, folding)) < len(choices) / 3
    assert search(task, "recursive_programming").seconds <= search(task, "optimal").seconds * 1.01


@pytest.mark.parametrize("mode", ["recursive_programming", "optimal"])
def test_what_is_computed_again_for_its_gradient_is_cut_as_the_first_time(mode) -> None:
    network = Transformer(1)
    network.layers[0].recompute()
    task = task_of(network, 4)
    assert len(problem(task).choices) == len(problem(task_of(Transformer(1), 4)).choices)
    found = {node.name: cuts for node, cuts in search(task, mode).strategies.items()}
    again = {name: cuts for name, cuts in found.items() if name.startswith("recomputed/")}
    assert again == {name: found[name.removeprefix("recomputed/")] for name in again}
    assert len(again) > 10


@pytest.mark.parametrize("mode", MODES)
def test_what_the_user_has_set_stays_and_two_searches_agree(mode) -> None:
    network = TwoProducts(16, 1024, 4096)
    network.narrow.shard(((2, 1), (1, 2)))
    tasks = [task_of(network, 4) for _ in range(2)]
    first, second = (cuts(task, search(task, mode)) for task in tasks)
    assert first == second
    assert first["MatMul-1"] == ((2, 1), (1, 2))


def test_a_memory_limit_is_kept_and_nothing_within_it_is_below_the_bound() -> None:
    task = task_of(TwoProducts(65536, 64, 512), 4)
    free = search(task, "optimal")
    found = problem(task)
    views = [whole_view(*pair) for pair in enumerate(found.counts)]
    sizes = sum((table.over(views) for table in found.memory), np.zeros(found.counts))
    limit = (free.memory + sizes.min()) / 2
    within = search(task, "optimal", memory=limit)
    best = all_costs(task)[sizes <= limit].min()
    assert within.memory <= limit < free.memory
    assert free.seconds < within.bound <= best * (1 + 1e-9)
    assert within.seconds == pytest.approx(best, rel=1e-9)
    with pytest.raises(
        ConfigurationError, match=r"hold 1e-06 GB, and nothing fits; .* closest, .*, needs 0\.\d+ GB .* too much"
    ):
        search(task, "optimal", memory=1e3)


def test_with_time_enough_a_search_goes_on_from_the_quick_method_to_the_best() -> None:
    task = task_of(Drawn(5, 8), 12)
    ways = ("recursive_programming", inf), ("optimal", inf), ("optimal", 1e6)
    quick, best, timed = (search(task, mode, timeout).seconds for mode, timeout in ways)
    assert quick > best == timed


def test_a_search_without_time_is_batch_parallel_and_says_so() -> None:
    task = task_of(Transformer(1), 4)
    found = search(task, "optimal", timeout=0)
    assert found.stopped_early
    assert found.seconds == pytest.approx(task.cost({}).seconds)
    assert 0 < found.bound < found.seconds


def test_a_quicker_link_never_makes_the_best_dearer() -> None:
    task = task_of(Drawn(4, 3), 4, Machine(ranks_per_host=2))
    seconds = []
    for factor in (1, 4, 16):
        prices = type(task.prices)(Machine(ranks_per_host=2, between=Link(2e-5 / factor, 1e9 * factor)))
        seconds.append(search(replace(task, prices=prices), "optimal").seconds)
    assert seconds == sorted(seconds, reverse=True)


def test_nothing_is_left_to_choose_where_all_is_given() -> None:
    task = task_of(TwoProducts(16, 64, 64), 4)
    found = search(task, "optimal")
    fixed = replace(task, given=Strategies(dict(found.strategies)))
    again = search(fixed, "optimal")
    assert again.seconds == pytest.approx(found.seconds)


def answer(seconds: float, bound: float) -> Answer:
    return Answer({}, seconds, bound, 0)


@pytest.mark.parametrize(("memory", "rounds"), [(inf, 2), (1e9, 1)])
def test_without_time_for_more_the_best_so_far_is_the_answer(
    memory: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = search_module._Search(None, (), Clock(), memory)
    tried: list[tuple[int, int]] = []

    def none(search: object, most_cells: int, floor: float, count: int) -> object:
        raise TimeOverError
        yield

    def two(search: object, most_cells: int, floor: float, count: int) -> object:
        tried.append((most_cells, count))
        yield answer(4.0, 1.0), False
        yield answer(3.0, 2.0), False
        raise TimeOverError

    def unlike(search: object, most_cells: int, floor: float, count: int) -> object:
        tried.append((most_cells, count))
        yield answer(5.0, 2.5 if most_cells == WIDE else 1.0), False

    monkeypatch.setattr(search_module, "_nearer_and_nearer", none)
    with pytest.raises(TimeOverError):
        search_module._optimal(told, 0.0)
    monkeypatch.setattr(search_module, "_nearer_and_nearer", two)
    assert search_module._optimal(told, 0.0) == answer(3.0, 2.0)
    plans = 12 if memory == inf else 2
    assert tried == [(NARROW, plans)]
    # Where it has time, it goes on with wider tables, unless there is a limit.
    tried.clear()
    monkeypatch.setattr(search_module, "_nearer_and_nearer", unlike)
    assert search_module._optimal(told, 0.0) == answer(5.0, 2.5 if memory == inf else 1.0)
    assert tried == [(NARROW, plans), (WIDE, plans)][:rounds]


@pytest.mark.parametrize(("count", "asked"), [(12, 3), (2, 2), (1, 1)])
def test_a_search_comes_nearer_until_it_finds_a_plan_again_or_has_had_as_many_as_it_may(
    count: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[list[tuple[int, ...]]] = []

    def problem(plans: list[tuple[int, ...]]) -> object:
        known.append([*plans])
        return SimpleNamespace(exact=False)

    def eliminated(*given: object) -> tuple[object, tuple[int, ...], bool]:
        return answer(1.0, 0.5), (min(len(known), 2),), True

    monkeypatch.setattr(search_module, "pricing_of", lambda *given, **named: SimpleNamespace(problem=problem))
    monkeypatch.setattr(search_module, "_eliminated", eliminated)
    told = search_module._Search(None, (), Clock(), inf)
    found = list(search_module._nearer_and_nearer(told, NARROW, 0.0, count))
    assert found == [(answer(1.0, 0.5), False)] * asked
    assert known == [[], [(1,)], [(1,), (2,)]][:asked]
