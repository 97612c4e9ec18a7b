"""Recursive programming: all operators are cut by one prime factor of the ranks after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from mpiparallel.graph.equation import Labels
from mpiparallel.graph.operator import Strategy
from mpiparallel.search.problem.choices import Choice

_CHOICES_KEPT: Final = 1 << 12


def prime_factors(number: int) -> list[int]:
    """Return the prime factors, the largest first.

    >>> prime_factors(12)
    [3, 2, 2]
    """
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found[::-1]


@lru_cache(_CHOICES_KEPT)
def cut_further(
    options: tuple[Strategy, ...], labels: tuple[Labels, ...], strategy: Strategy, factor: int
) -> tuple[Strategy, ...]:
    """Return a strategy, and those of some options that cut one label more by a factor, in their order.

    ``labels`` are those of the dims that a strategy speaks of. Equal choices get one object.
    """
    cuts = _as_rows(options)
    own = np.array([cut for cuts_of in strategy for cut in cuts_of])
    changed = cuts != own
    names = [label for named in labels for label in named]
    further = sum(changed[:, [label == name for label in names]].any(1).astype(int) for name in dict.fromkeys(names))
    allowed = (further <= 1) & (~changed | (cuts == own * factor)).all(1)
    return tuple(options[place] for place in np.flatnonzero(allowed).tolist())


@lru_cache(_CHOICES_KEPT)
def _as_rows(options: tuple[Strategy, ...]) -> np.ndarray[Any, Any]:
    """Return the cuts of each option as a row."""
    return np.array([[cut for cuts in one for cut in cuts] for one in options])


def rounds(choices: Sequence[Choice], ranks: int) -> Iterator[int]:
    """Yield the factors by which operators are cut, one a round, as long as one of them has a choice."""
    if any(choice.is_free for choice in choices):
        yield from prime_factors(ranks)


def uncut(choice: Choice) -> Strategy:
    """Return the option that cuts least."""
    return min(choice.options, key=lambda one: prod(cut for cuts in one for cut in cuts))


def narrowed(choices: Sequence[Choice], strategies: Sequence[Strategy], factor: int) -> tuple[Choice, ...]:
    """Return the choices of a round: what each operator has, or one label cut once more."""
    pairs = zip(choices, strategies, strict=True)
    return tuple(
        replace(choice, options=_further(choice, strategy, factor)) if choice.is_free else choice
        for choice, strategy in pairs
    )


def _further(choice: Choice, strategy: Strategy, factor: int) -> tuple[Strategy, ...]:
    return cut_further(choice.options, tuple(choice.node.equation.strategy_inputs), strategy, factor)
