"""Activation functions that are made of other operators."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations


def _apply(operator: Any, *inputs: Any) -> Tensor:
    result: Tensor = operator(*inputs)
    return result


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(x)


def silu(input: Any) -> Tensor:
    """Return ``input * sigmoid(input)``."""
    x = _tensor(input)
    return x * x.sigmoid()


swish = silu


def leaky_relu(input: Any, alpha: float = 0.2) -> Tensor:
    """Return ``input`` where it is positive, ``alpha * input`` elsewhere."""
    x = _tensor(input)
    return _apply(operations.Select(), x > 0, x, x * alpha)


def prelu(input: Any, weight: Any) -> Tensor:
    """Return ``input`` (n, c, ...) where it is positive, elsewhere times ``weight``, of one element or of c."""
    x, slopes = _tensor(input), _tensor(weight)
    if slopes.size > 1:
        slopes = slopes.reshape((-1, *(1 for _ in x.shape[2:])))
    return _apply(operations.Select(), x > 0, x, x * slopes)


def relu6(x: Any) -> Tensor:
    """Return ``min(max(x, 0), 6)``."""
    return _tensor(x).clip(0.0, 6.0)


def elu(input_x: Any, alpha: float = 1.0) -> Tensor:
    """Return ``input_x`` where it is positive, ``alpha * (exp(input_x) - 1)`` elsewhere."""
    x = _tensor(input_x)
    # Only what is not positive goes through exp, which would overflow and give gradients of no number.
    return _apply(operations.Select(), x > 0, x, (x.minimum(0.0).exp() - 1.0) * alpha)


def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Tensor:
    """Return ``log(1 + exp(beta * input)) / beta``, and ``input`` where ``beta * input`` is above ``threshold``."""
    x = _tensor(input)
    scaled = x if beta == 1 else x * beta
    soft = _softplus(scaled)
    return _apply(operations.Select(), scaled > threshold, x, soft if beta == 1 else soft / beta)


def _softplus(x: Tensor) -> Tensor:
    """Return ``log(1 + exp(x))`` wherever it is."""
    return _apply(operations.SigmoidCrossEntropyWithLogits(), x, _apply(operations.ZerosLike(), x))


def logsigmoid(x: Any) -> Tensor:
    """Return ``log(sigmoid(x))``."""
    return -_softplus(-_tensor(x))


def mish(x: Any) -> Tensor:
    """Return ``x * tanh(softplus(x))``."""
    given = _tensor(x)
    return given * _softplus(given).tanh()


def hardsigmoid(input: Any) -> Tensor:
    """Return ``min(max(input + 3, 0), 6) / 6``."""
    return relu6(_tensor(input) + 3.0) / 6.0


def hardswish(input: Any) -> Tensor:
    """Return ``input * hardsigmoid(input)``."""
    x = _tensor(input)
    return x * hardsigmoid(x)


def softsign(x: Any) -> Tensor:
    """Return ``x / (1 + abs(x))``."""
    given = _tensor(x)
    return given / (given.abs() + 1.0)
