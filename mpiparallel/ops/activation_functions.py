"""Activation functions that are made of several operators."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import applied
from mpiparallel.ops.choice import Select
from mpiparallel.ops.elementwise import Softplus


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(x)


def leaky_relu(input: Any, alpha: float = 0.2) -> Tensor:
    """Return ``input`` where it is positive, ``alpha * input`` elsewhere."""
    x = _tensor(input)
    return applied(Select(), x > 0, x, x * alpha)


def prelu(input: Any, weight: Any) -> Tensor:
    """Return ``input`` (n, c, ...) where it is positive, elsewhere times ``weight``, of one element or of c."""
    x, slopes = _tensor(input), _tensor(weight)
    if slopes.size > 1:
        slopes = slopes.reshape((-1, *(1 for _ in x.shape[2:])))
    return applied(Select(), x > 0, x, x * slopes)


def relu6(x: Any) -> Tensor:
    """Return ``min(max(x, 0), 6)``."""
    return _tensor(x).clip(0.0, 6.0)


def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Tensor:
    """Return ``log(1 + exp(beta * input)) / beta``, and ``input`` where ``beta * input`` is above ``threshold``."""
    x = _tensor(input)
    scaled = x if beta == 1 else x * beta
    soft = applied(Softplus(), scaled)
    return applied(Select(), scaled > threshold, x, soft if beta == 1 else soft / beta)


def logsigmoid(x: Any) -> Tensor:
    """Return ``log(sigmoid(x))``."""
    return -applied(Softplus(), -_tensor(x))
