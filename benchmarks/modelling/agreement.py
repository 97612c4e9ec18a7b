"""How well predicted seconds agree with measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np


@dataclass(frozen=True)
class Agreement:
    """Of strategies: rank correlation, median error, the chosen one over the best, and the slowest over the fastest.

    The error is of a prediction over what was measured, less 1, without its sign. ``scaled`` is the median error of
    predictions all multiplied by the one number that suits them best.
    """

    correlation: float
    error: float
    scaled: float
    chosen: float
    spread: float


def agreement(predicted: Sequence[float], measured: Sequence[float]) -> Agreement:
    """Return how predictions agree with measurements.

    >>> agreement([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    Agreement(correlation=1.0, error=0.5, scaled=0.0, chosen=1.0, spread=3.0)
    """
    ratios = np.array(predicted) / np.array(measured)
    chosen = measured[int(np.argmin(predicted))]
    return Agreement(
        float(np.round(np.corrcoef(_places(predicted), _places(measured))[0, 1], 6)),
        median(np.abs(ratios - 1).tolist()),
        median(np.abs(ratios / np.median(ratios) - 1).tolist()),
        chosen / min(measured),
        max(measured) / min(measured),
    )


@dataclass(frozen=True)
class Ordered:
    """Of pairs of strategies that differ by more than noise: how many there are, and Kendall's rank correlation.

    ``noise`` is the standard deviation of what is taken for a strategy, as a part of it.
    """

    noise: float
    pairs: int
    correlation: float


def ordered_beyond_noise(
    predicted: Sequence[float], measured: Sequence[float], rounds: Sequence[tuple[float, float]]
) -> Ordered:
    """Return how predictions order strategies whose order the measurement itself tells.

    ``rounds`` are what the first and the last round have measured of each. What all differ by from round to round is
    the machine's. What is left tells the noise of their mean. A pair counts where it differs by more than twice that of
    a difference. The correlation is that of Kendall: 1 where all pairs are ordered right, -1 where none is.

    >>> ordered_beyond_noise([1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [(2.0, 2.0), (4.0, 4.0), (6.0, 6.0)])
    Ordered(noise=0.0, pairs=3, correlation=1.0)
    """
    first, last = np.log(np.array(rounds)).T
    drift = first - last - np.median(first - last)
    noise = float(np.sqrt(np.mean(drift**2))) / 2
    told, found = np.log(predicted), np.log(measured)
    rows, columns = np.triu_indices(len(found), 1)
    apart = found[rows] - found[columns]
    counts = np.abs(apart) > 2 * np.sqrt(2) * noise
    agreeing = np.sign(told[rows] - told[columns])[counts] * np.sign(apart)[counts]
    return Ordered(noise, int(counts.sum()), float(agreeing.mean()) if agreeing.size else float("nan"))


def chosen_over_best(predicted: Sequence[float], rounds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return what the chosen strategy takes over the best in the last round and the first; the other tells the best.

    The least of many that were measured once is short by chance, too: it is no best to compare with.

    >>> chosen_over_best([1.0, 2.0], [(3.0, 3.0), (2.0, 4.0)])
    (0.75, 1.0)
    """
    first, last = np.array(rounds).T
    chosen = int(np.argmin(predicted))
    return float(last[chosen] / last[np.argmin(first)]), float(first[chosen] / first[np.argmin(last)])


def _places(values: Sequence[float]) -> list[float]:
    """Return the place of each value in their order; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
