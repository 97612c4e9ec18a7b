"""Options that spread from what is fixed, in the order and at the costs that are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.graph.graph import Node
from mpiparallel.search.methods.propagation import propagate
from mpiparallel.search.problem.choices import Choice
from mpiparallel.search.problem.problem import Problem
from mpiparallel.search.problem.views import Table, View, whole_view


def problem(*counts: int) -> Problem:
    """Choices of so many options; one of a single option is fixed."""
    options = [tuple(((1, place + 1),) for place in range(count)) for count in counts]
    return Problem(tuple(Choice(Node(ops.ReLU(), "one", ()), of) for of in options), (), (), (), exact=True)


def table(choices: Sequence[int], values: object) -> Table:
    array = np.array(values, float)
    return Table(tuple(whole_view(one, count) for one, count in zip(choices, array.shape, strict=True)), array)


FIRST, SECOND = table([0], [1, 0]), table([1], [0, 3])
ALIKE = table([0, 1], [[0, 5], [5, 0]])
"""Two choices that should be alike; the first would rather be 1, the second rather 0."""


@pytest.mark.parametrize(
    ("counts", "tables", "wanted"),
    [
        # The first operator begins, and takes what suits it; so the second follows.
        ((2, 2), [FIRST, SECOND, ALIKE], (1, 1)),
        # What a fixed one binds comes before it.
        ((2, 2, 1), [FIRST, SECOND, ALIKE, table([1, 2], [[0], [0]])], (0, 0, 0)),
        # Among equals the first of the graph comes first.
        ((2, 2, 1), [FIRST, SECOND, ALIKE, table([1, 2], [[0], [0]]), table([0, 2], [[0], [0]])], (1, 1, 0)),
        # Two tables bind more than one does.
        (
            (2, 2, 1),
            [FIRST, SECOND, ALIKE, table([0, 2], [[0], [0]]), *[table([1, 2], [[0], [0]])] * 2],
            (0, 0, 0),
        ),
        # What has just been decided binds, too: after 2 comes 1, to which two tables bind it, and then 0.
        (
            (2, 2, 2, 1),
            [
                FIRST,
                SECOND,
                ALIKE,
                table([0, 3], [[0], [0]]),
                *[table([2, 3], [[0], [0]])] * 2,
                *[table([1, 2], [[0, 0], [0, 0]])] * 2,
            ],
            (0, 0, 0, 0),
        ),
        # Of what is not decided yet, that counts which suits best.
        ((2, 2), [table([0, 1], [[9, 2], [3, 3]])], (0, 1)),
        ((2, 2), [table([0, 1], [[9, 4], [3, 3]])], (1, 0)),
    ],
)
def test_each_operator_takes_what_suits_those_that_are_decided(
    counts: tuple[int, ...], tables: list[Table], wanted: tuple[int, ...]
) -> None:
    assert propagate(problem(*counts), tables) == wanted


def test_options_of_one_class_cost_alike_and_the_first_is_taken() -> None:
    seen = View(0, np.array([0, 1, 1]))
    assert propagate(problem(3), [Table((seen,), np.array([2.0, 1.0]))]) == (1,)
    other = table([1], [0, 0])
    both = Table((seen, whole_view(1, 2)), np.array([[0.0, 0.0], [0.0, -1.0]]))
    assert propagate(problem(3, 2), [both, other]) == (1, 1)
