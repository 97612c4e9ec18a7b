"""What a case of an operator is, and the numbers that cases are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor

Array = Any


@dataclass(frozen=True)
class OperatorCase:
    """An operator with inputs.

    ``build`` makes the operator, which is called with the input tensors, then ``arguments``; ``call`` calls it
    where its signature is another. ``differentiable`` are the inputs that have a gradient, ``outputs`` those that it
    is the gradient of. Inputs named by the operator's ``updates`` are given as parameters. ``every_strategy`` is False
    where another case, such as that of which it is the gradient, runs the same under every strategy.
    """

    name: str
    build: Callable[[], Operator]
    inputs: tuple[Array, ...]
    arguments: tuple[Any, ...] = ()
    differentiable: tuple[int, ...] = ()
    outputs: tuple[int, ...] = (0,)
    call: Callable[[Operator, Sequence[Tensor]], Any] | None = None
    every_strategy: bool = True

    def apply(self, operator: Operator, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Apply the operator to tensors that stand for the inputs and return its outputs."""
        result = operator(*tensors, *self.arguments) if self.call is None else self.call(operator, tensors)
        return result if isinstance(result, tuple) else (result,)


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
