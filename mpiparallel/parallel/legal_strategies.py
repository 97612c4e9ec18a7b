"""All strategies that an operator can have on a number of devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    names = equation.labels
    options = [[factor for factor in factors if equation.allows(label, factor)] for label in names]
    # After the cuts of the labels stands the 1 of dims without one.
    places = {label: place for place, label in enumerate(names)}
    spoken = [[places.get(label or "", -1) for label in labels] for labels in equation.strategy_inputs]
    for cuts in _products_that_divide(options, devices):
        whole = (*cuts, 1)
        yield tuple(tuple(whole[place] for place in dims) for dims in spoken)


def _products_that_divide(options: Sequence[Sequence[int]], number: int) -> Iterator[tuple[int, ...]]:
    """Yield one factor of each row whose product divides a number, the first row slowest."""
    if not options:
        yield ()
        return
    for factor in options[0]:
        if number % factor == 0:
            for rest in _products_that_divide(options[1:], number // factor):
                yield (factor, *rest)
