"""From the strategies that are set to all others: neighbours take what suits what is decided already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiparallel.search.problem.problem import Problem
from mpiparallel.search.problem.views import Array, Table, View


def propagate(problem: Problem, tables: Sequence[Table]) -> tuple[int, ...]:
    """Return options for all choices, beginning at those that are fixed.

    The choice that the most tables bind to decided ones comes next, among equals the first of the graph. It takes what
    costs the least with these. Where nothing is fixed the first operator begins.
    """
    near: list[list[Table]] = [[] for _ in problem.choices]
    for table in tables:
        for choice in table.choices:
            near[choice].append(table)
    options = [0] * len(problem.choices)
    decided = {number for number, choice in enumerate(problem.choices) if not choice.is_free}
    bound = [sum(not decided.isdisjoint(table.choices) for table in of) for of in near]
    left = set(range(len(problem.choices))) - decided
    while left:
        choice = max(left, key=lambda one: (bound[one], -one))
        options[choice] = int(_promise(problem, choice, near[choice], options, decided).argmin())
        left.remove(choice)
        decided.add(choice)
        for table in near[choice]:
            for other in table.choices:
                bound[other] += 1
    return tuple(options)


def _promise(
    problem: Problem, choice: int, tables: Sequence[Table], options: Sequence[int], decided: set[int]
) -> Array:
    """Return what each option costs with what is decided, where all else suits it."""
    found = np.zeros(problem.counts[choice])
    for table in tables:
        values, kept = table.values, list[View]()
        for view in table.views:
            axis = len(kept)
            if view.choice == choice:
                kept.append(view)
            elif view.choice in decided:
                values = values.take(int(view.classes[options[view.choice]]), axis)
            else:
                values = values.min(axis)
        found += values[kept[0].classes]
    return found
