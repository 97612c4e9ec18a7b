"""The search for the strategies of a graph, by one of four methods over one cost model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from mpiparallel.backend.collector_pause import collector_paused
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Node
from mpiparallel.graph.operator import Strategy
from mpiparallel.search.cost.floor import least_seconds
from mpiparallel.search.cost.memory import bytes_kept
from mpiparallel.search.cost.step import step_cost
from mpiparallel.search.methods.answer import Answer
from mpiparallel.search.methods.elimination import eliminate
from mpiparallel.search.methods.halving import narrowed, rounds, uncut
from mpiparallel.search.methods.memory_bound import Priced, within_memory
from mpiparallel.search.methods.optimal import priced_tables, solve_by_elimination
from mpiparallel.search.methods.propagation import propagate
from mpiparallel.search.problem.choices import Choice, choices_of
from mpiparallel.search.problem.clock import Clock, TimeOverError
from mpiparallel.search.problem.folding import folding_of, tied
from mpiparallel.search.problem.likeness import likeness
from mpiparallel.search.problem.outline import outline_of
from mpiparallel.search.problem.problem import NARROW, WIDE, Problem, pricing_of, problem_of
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.task import Task

_LARGE: Final = 1 << 25
_SMALL: Final = 1 << 13
_ROUNDING: Final = 1e-12
_PLANS: Final = 12


@dataclass(frozen=True)
class _Search:
    task: Task
    choices: tuple[Choice, ...]
    clock: Clock
    memory: float

    def answer(self, strategies: dict[Node, Strategy], bound: float) -> Answer:
        """Return the answer that these strategies are, priced as it would run."""
        task = self.task
        sharded = task.placed(strategies)
        seconds = step_cost(sharded, task.prices, task.live).seconds
        return Answer(strategies, seconds, min(bound, seconds), bytes_kept(sharded, task.kept))


@collector_paused()
def search(task: Task, mode: str, timeout: float = inf, memory: float = inf) -> Answer:
    """Return strategies for the operators of a graph that have none; those that are given stay.

    ``mode`` is one of ``MODES``. After ``timeout`` seconds it is the best so far. A rank may hold ``memory`` bytes of
    parameters, states and what the gradient reads. It is never dearer than batch parallelism of all operators without
    a strategy, if that fits.

    Raises ConfigurationError where nothing fits, which says by how much.
    """
    choices = choices_of(task.graph, task.given, task.configuration.device_num)
    memory *= task.stages
    started = _Search(task, choices, Clock(timeout), memory)
    floor = least_seconds(task.graph, task.prices.machine, task.configuration.device_num)
    found = [started.answer({}, floor)]
    stopped = False
    try:
        for method in _methods(mode, choices, timeout):
            found.append(method(started, floor))
            if found[-1].memory <= memory and found[-1].gap <= _ROUNDING:
                break
    except TimeOverError:
        stopped = True
    stopped |= found[-1].gap > _ROUNDING and not started.clock.has_time()
    fitting = [one for one in found if one.memory <= memory]
    if not fitting:
        least = min(found, key=lambda one: one.memory)
        unit = 1e9 * task.stages
        cut = sum(any(one > 1 for cuts in strategy for one in cuts) for strategy in least.strategies.values())
        how = f"with {cut} of {len(least.strategies)} operators cut" if least.strategies else "by the batch"
        raise ConfigurationError(
            f"search: a rank may hold {memory / unit:.3g} GB, and nothing fits; what comes closest, {how}, needs "
            f"{least.memory / unit:.3g} GB for parameters, states and what the gradient reads, "
            f"{(least.memory - memory) / unit:.3g} GB too much; use more ranks, the parallel optimizer or recomputation"
        )
    best = min(fitting, key=lambda one: one.seconds)
    bound = max((one.bound for one in found if one.bound <= best.seconds), default=floor)
    return Answer(best.strategies, best.seconds, bound, best.memory, stopped)


def _methods(mode: str, choices: Sequence[Choice], timeout: float) -> tuple[Callable[[_Search, float], Answer], ...]:
    """Return what a mode does: the quick method first where time may run out, else only where the other has a gap."""
    if not any(choice.is_free for choice in choices):
        return ()
    return MODES[mode] if timeout < inf else MODES[mode][::-1]


def _recursive(search: _Search, floor: float) -> Answer:
    """Cut all operators by one prime factor of the ranks after the other, each time in the best way."""

    task, known = search.task, dict[tuple[int, tuple[Strategy, ...]], Problem]()
    alike = likeness(task.graph, task.given, task.held)
    folding = folding_of(task.live, alike)
    all_choices = tied(search.choices, folding)
    outline = outline_of(task, all_choices, alike, folding)

    def solve(price: float) -> Priced:
        strategies = tuple(uncut(choice) for choice in all_choices)
        for factor in rounds(all_choices, task.configuration.device_num):
            if (factor, strategies) not in known:
                choices = narrowed(all_choices, strategies, factor)
                known[factor, strategies] = problem_of(task, choices, search.clock, outline)
            problem = known[factor, strategies]
            options = eliminate(priced_tables(problem, price), problem.counts, _SMALL, Repeats()).options
            strategies = tuple(choice.options[one] for choice, one in zip(problem.choices, options, strict=True))
        places = [choice.options.index(one) for choice, one in zip(all_choices, strategies, strict=True)]
        return Priced(tuple(places), problem.cost(options), problem.bytes(options), floor)

    found, _ = within_memory(solve, search.memory, search.clock.has_time)
    return search.answer(_strategies(all_choices, found.options), floor)


def _programming(search: _Search, floor: float) -> Answer:
    """Eliminate with small tables; where these do not suffice, guess."""
    problem = problem_of(search.task, search.choices, search.clock)
    return _eliminated(search, problem, _SMALL, floor, Repeats())[0]


def _optimal(search: _Search, floor: float) -> Answer:
    """Eliminate with tables as large as they must be.

    A problem may only bound what runs. Then the next problem is nearer to it at the plans found so far, until the best
    of these costs no more than the bound. If that does not happen, tables are made as wide as they can be.
    """
    answers: list[Answer] = []
    is_free = search.memory == inf
    # Where memory is what keeps the best from the bound, many rounds would not help.
    for most_cells in (NARROW, WIDE) if is_free else (NARROW,):
        try:
            for answer, is_final in _nearer_and_nearer(search, most_cells, floor, _PLANS if is_free else 2):
                answers.append(answer)
                if is_final or _best(answers, search.memory).gap <= _ROUNDING:
                    return _best(answers, search.memory)
        except TimeOverError:
            if not answers:
                raise
            break
    return _best(answers, search.memory)


def _nearer_and_nearer(search: _Search, most_cells: int, floor: float, count: int) -> Iterator[tuple[Answer, bool]]:
    """Yield answers to problems that come nearer to what runs at the plans of the answers before.

    With each goes whether no other is better: its problem is what runs, or is too large to be solved exactly.
    """
    pricing = pricing_of(search.task, search.choices, search.clock, most_cells=most_cells)
    plans, repeats = list[tuple[int, ...]](), Repeats()
    while len(plans) < count:
        problem = pricing.problem(plans)
        answer, options, is_solved = _eliminated(search, problem, _LARGE, floor, repeats)
        yield answer, problem.exact or (search.memory == inf and not is_solved)
        if options in plans:
            break
        search.clock.check()
        plans.append(options)


def _best(answers: Sequence[Answer], memory: float) -> Answer:
    """Return the quickest answer that fits, or what needs the least memory, with the highest bound of all."""
    fitting = [one for one in answers if one.memory <= memory]
    if not fitting:
        return min(answers, key=lambda one: one.memory)
    best = min(fitting, key=lambda one: one.seconds)
    return replace(best, bound=min(best.seconds, max(one.bound for one in fitting)))


def _eliminated(
    search: _Search, problem: Problem, most_cells: int, floor: float, repeats: Repeats
) -> tuple[Answer, tuple[int, ...], bool]:
    """Return the answer to a problem, its options, and whether nothing is better by the problem's own count."""
    found, bound = solve_by_elimination(problem, most_cells, search.memory, search.clock, repeats)
    answer = search.answer(_strategies(search.choices, found.options), bound if problem.bounds else floor)
    return answer, found.options, found.seconds <= bound * (1 + _ROUNDING)


def _propagated(search: _Search, floor: float) -> Answer:
    """Go from what is decided to its neighbours, each of which takes what suits it best."""
    problem = problem_of(search.task, search.choices, search.clock)

    def solve(price: float) -> Priced:
        options = propagate(problem, priced_tables(problem, price))
        return Priced(options, problem.cost(options), problem.bytes(options), floor)

    found, _ = within_memory(solve, search.memory, search.clock.has_time)
    return search.answer(_strategies(search.choices, found.options), floor)


def _strategies(choices: Sequence[Choice], options: Sequence[int]) -> dict[Node, Strategy]:
    pairs = zip(choices, options, strict=True)
    return {node: choice.options[one] for choice, one in pairs for node in choice.nodes}


MODES: Final[dict[str, tuple[Callable[[_Search, float], Answer], ...]]] = {
    "recursive_programming": (_recursive,),
    "dynamic_programming": (_recursive, _programming),
    "sharding_propagation": (_propagated,),
    "optimal": (_recursive, _optimal),
}
"""What each mode does, the quickest first: the cheapest result counts, and the best so far when time runs out."""
