"""All strategies that an operator can have on a number of devices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator_settings import Strategy


def legal_strategies(equation: Equation, devices: int) -> Iterator[Strategy]:
    """Yield every strategy of an operator whose cuts, multiplied, divide the ``devices``, uncut dims first.

    Which labels can be cut, and into how many parts, is said by its ``equation``.

    >>> from mpiparallel.graph.equation import Equation
    >>> list(legal_strategies(Equation.parse("mk,kn->mn"), 2))
    [((1, 1), (1, 1)), ((1, 1), (1, 2)), ((1, 2), (2, 1)), ((2, 1), (1, 1))]
    """
    factors = [factor for factor in range(1, devices + 1) if devices % factor == 0]
    options = [[factor for factor in factors if equation.allows(label, factor)] for label in equation.labels]
    for cuts in product(*options):
        if devices % prod(cuts) == 0:
            cut = dict(zip(equation.labels, cuts, strict=True))
            spoken = equation.strategy_inputs
            yield tuple(tuple(cut.get(label, 1) if label else 1 for label in labels) for labels in spoken)
