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


def _places(values: Sequence[float]) -> list[float]:
    """Return the place of each value in their order; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
