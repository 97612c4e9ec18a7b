"""Losses of the deviation from a target, made of other operators."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied, as_tensor
from mpiparallel.ops.reductions.reduction import reduced_loss


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Return the reduction of ``(input - target) ** 2``.

    Parameters
    ----------
    input, target : Tensor or array
        Of shapes that broadcast.
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Returns
    -------
    Tensor
        0-d, or of the shape of the losses without a reduction; of the dtype of the input.

    Raises
    ------
    ConfigurationError
        For another ``reduction``.

    Examples
    --------
    >>> float(mse_loss(Tensor([1.0, 2.0]), Tensor([1.0, 4.0])))
    2.0
    """
    return reduced_loss((as_tensor(input) - target).square(), reduction, "mse_loss")


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Return the reduction of ``abs(input - target)``.

    Parameters
    ----------
    input, target : Tensor or array
        Of shapes that broadcast.
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Returns
    -------
    Tensor
        0-d, or of the shape of the losses without a reduction; of the dtype of the input.

    Raises
    ------
    ConfigurationError
        For another ``reduction``.

    Examples
    --------
    >>> float(l1_loss(Tensor([1.0, 2.0]), Tensor([1.0, 4.0])))
    1.0
    """
    return reduced_loss((as_tensor(input) - target).abs(), reduction, "l1_loss")


def smooth_l1_loss(input: Any, target: Any, beta: float = 1.0, reduction: str = "none") -> Tensor:
    """Return the reduction of a loss that is quadratic near 0 and linear beyond.

    It is ``d ** 2 / (2 * beta)`` where ``d = abs(input - target)`` is below ``beta``, else ``d - beta / 2``.

    Parameters
    ----------
    input, target : Tensor or array
        Of shapes that broadcast.
    beta : float
        Above 0.
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Returns
    -------
    Tensor
        0-d, or of the shape of the losses without a reduction; of the dtype of the input.

    Raises
    ------
    ConfigurationError
        For another ``reduction``.

    Examples
    --------
    >>> smooth_l1_loss(Tensor([1.0, 2.0]), Tensor([2.0, 4.0])).tolist()
    [0.5, 1.5]
    """
    far = (as_tensor(input) - target).abs()
    losses = applied(operations.Select(), far < beta, far.square() / (2.0 * beta), far - beta / 2.0)
    return reduced_loss(losses, reduction, "smooth_l1_loss")


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Return the reduction of ``delta`` times the smooth L1 loss of ``beta = delta``.

    Parameters
    ----------
    input, target : Tensor or array
        Of shapes that broadcast.
    reduction : {"mean", "sum", "none"}
        What is made of the losses.
    delta : float
        Above 0.

    Returns
    -------
    Tensor
        0-d, or of the shape of the losses without a reduction; of the dtype of the input.

    Raises
    ------
    ConfigurationError
        For another ``reduction``.

    Examples
    --------
    >>> float(huber_loss(Tensor([1.0, 2.0]), Tensor([2.0, 4.0])))
    1.0
    """
    return reduced_loss(smooth_l1_loss(input, target, delta) * delta, reduction, "huber_loss")
