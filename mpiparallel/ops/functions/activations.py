"""Activation functions that are made of several operators."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import applied, as_tensor
from mpiparallel.ops.elementwise import Softplus
from mpiparallel.ops.elementwise.selection import Select


def leaky_relu(input: Any, alpha: float = 0.2) -> Tensor:
    """Return ``input`` where it is positive, ``alpha * input`` elsewhere.

    Parameters
    ----------
    input : Tensor or array
        Floating point, of any shape.
    alpha : float
        The slope where it is negative.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> leaky_relu(Tensor([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    x = as_tensor(input)
    return applied(Select(), x > 0, x, x * alpha)


def prelu(input: Any, weight: Any) -> Tensor:
    """Return ``input`` (n, c, ...) where it is positive, elsewhere times ``weight``, of one element or of c.

    Parameters
    ----------
    input : Tensor or array
        Floating point, (n, c, ...).
    weight : Tensor or array
        (1,) or (c,).

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> prelu(Tensor([[-1.0, -1.0]]), Tensor([0.5, 0.25])).tolist()
    [[-0.5, -0.25]]
    """
    x, slopes = as_tensor(input), as_tensor(weight)
    if slopes.size > 1:
        slopes = slopes.reshape((-1, *(1 for _ in x.shape[2:])))
    return applied(Select(), x > 0, x, x * slopes)


def relu6(x: Any) -> Tensor:
    """Return ``min(max(x, 0), 6)``.

    Parameters
    ----------
    x : Tensor, array or number
        Numbers of any shape.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> relu6(Tensor([-1.0, 2.0, 7.0])).tolist()
    [0.0, 2.0, 6.0]
    """
    return as_tensor(x).clip(0.0, 6.0)


def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Tensor:
    """Return ``log(1 + exp(beta * input)) / beta``, and ``input`` where ``beta * input`` is above ``threshold``.

    Parameters
    ----------
    input : Tensor or array
        Floating point, of any shape.
    beta : float
        Not 0.
    threshold : float
        Above which the function is the line.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> [round(one, 4) for one in softplus(Tensor([0.0, 30.0])).tolist()]
    [0.6931, 30.0]
    """
    x = as_tensor(input)
    scaled = x if beta == 1 else x * beta
    soft = applied(Softplus(), scaled)
    return applied(Select(), scaled > threshold, x, soft if beta == 1 else soft / beta)


def logsigmoid(x: Any) -> Tensor:
    """Return ``log(sigmoid(x))``.

    Parameters
    ----------
    x : Tensor or array
        Floating point, of any shape.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> round(float(logsigmoid(Tensor(0.0))), 4)
    -0.6931
    """
    return -applied(Softplus(), -as_tensor(x))
