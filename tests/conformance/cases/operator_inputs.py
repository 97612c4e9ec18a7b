"""The numbers that cases of operators are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def floats(*shape: int, seed: int = 1) -> Array:
    """Return distinct numbers in (-2, 2), none near 0 and no two near each other."""
    count = int(np.prod(shape))
    steps = np.random.default_rng([seed, *shape]).permutation(count)
    values = (steps + 0.5) / count * 4.0 - 2.0
    return (values + np.sign(values) * 0.05).reshape(shape)


def positive(*shape: int, seed: int = 1) -> Array:
    """Return distinct numbers above 0.3."""
    return np.abs(floats(*shape, seed=seed)) + 0.3


def integers(*shape: int, below: int, seed: int = 1) -> Array:
    """Return random numbers of 0 to ``below - 1``."""
    return np.random.default_rng([seed, *shape]).integers(0, below, shape).astype(np.int32)


def probabilities(*shape: int) -> Array:
    """Return positive numbers whose sum along the last dim is 1."""
    values = positive(*shape)
    return values / values.sum(-1, keepdims=True)


def scalar(value: float) -> Array:
    """Return a 0-d array."""
    return np.asarray(value)
