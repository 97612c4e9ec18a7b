"""Losses of probabilities and classes, made of other operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ShapeError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied, as_tensor
from mpiparallel.ops.reductions.reduction import reduced_loss


def kl_div(logits: Any, labels: Any, reduction: str = "mean") -> Tensor:
    """Return the reduction of ``labels * (log(labels) - logits)``, 0 where labels are 0.

    Parameters
    ----------
    logits : Tensor or array
        Logarithms of probabilities.
    labels : Tensor or array
        Probabilities, of the same shape.
    reduction : {"mean", "sum", "none", "batchmean"}
        What is made of the losses; "batchmean" is the sum divided by the number of rows.

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
    >>> float(kl_div(Tensor([0.0, 0.0]), Tensor([1.0, 0.0])))
    0.0
    """
    x, p = as_tensor(logits), as_tensor(labels)
    positive = p > 0
    safe = applied(operations.Select(), positive, p, applied(operations.OnesLike(), p))
    losses = applied(operations.Select(), positive, p * (safe.log() - x), applied(operations.ZerosLike(), p))
    if reduction == "batchmean":
        return losses.sum() / x.shape[0]
    return reduced_loss(losses, reduction, "kl_div")


def binary_cross_entropy(logits: Any, labels: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """Return the reduction of ``-labels * log(logits) - (1 - labels) * log(1 - logits)``, times ``weight``.

    Parameters
    ----------
    logits : Tensor or array
        Probabilities; their logarithms are taken as no less than -100, in float32 than about -87, in float16 -16.6.
    labels : Tensor or array
        0 to 1, of the same shape.
    weight : Tensor or array, optional
        Of a shape that broadcasts.
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
    >>> round(float(binary_cross_entropy(Tensor([0.5]), Tensor([1.0]))), 4)
    0.6931
    """
    p, y = as_tensor(logits), as_tensor(labels)
    losses = -(y * _log(p) + (1.0 - y) * _log(1.0 - p))
    return reduced_loss(losses if weight is None else losses * weight, reduction, "binary_cross_entropy")


def _log(p: Tensor) -> Tensor:
    if p.dtype == np.float16:
        return p.maximum(float(np.finfo(np.float16).smallest_subnormal)).log()
    return p.maximum(float(np.exp(-100.0)) if p.dtype == np.float64 else float(np.finfo(np.float32).tiny)).log()


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """Return the binary cross entropy of ``sigmoid(input)`` and ``target``, computed so that nothing overflows.

    It is the reduction of ``-pos_weight * target * log(s) - (1 - target) * log(1 - s)``, ``s = sigmoid(input)``, times
    ``weight``.

    Parameters
    ----------
    input, target : Tensor or array
        Floating point, of one shape; the target is 0 to 1.
    weight, pos_weight : Tensor or array, optional
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
    >>> round(float(binary_cross_entropy_with_logits(Tensor([0.0]), Tensor([1.0]))), 4)
    0.6931
    """
    x, y = as_tensor(input), as_tensor(target)
    losses = applied(operations.SigmoidCrossEntropyWithLogits(), x, y)
    if pos_weight is not None:
        losses = losses + y * (as_tensor(pos_weight) - 1.0) * applied(
            operations.SigmoidCrossEntropyWithLogits(), x, applied(operations.OnesLike(), x)
        )
    return reduced_loss(losses if weight is None else losses * weight, reduction, "binary_cross_entropy_with_logits")


def nll_loss(
    inputs: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the reduction of ``-weight[t] * inputs[n, t]``, where t are the classes in ``target``.

    Parameters
    ----------
    inputs : Tensor or array
        (n, classes, ...), logarithms of probabilities.
    target : Tensor or array
        (n, ...), integers.
    weight : Tensor or array, optional
        (classes,).
    ignore_index : int
        The class where the loss is 0.
    reduction : {"mean", "sum", "none"}
        What is made of the losses; the mean divides by the sum of the weights that took part.
    label_smoothing : float
        The share of each loss that is given to all classes alike.

    Returns
    -------
    Tensor
        0-d, or of the shape of ``target`` without a reduction.

    Raises
    ------
    ShapeError
        When the target does not fit.
    ConfigurationError
        For another ``reduction``.

    Examples
    --------
    >>> float(nll_loss(Tensor([[-1.0, -2.0]]), Tensor([1])))
    2.0
    """
    x, classes = as_tensor(inputs), as_tensor(target)
    dim = min(1, x.ndim - 1)
    if classes.shape != (*x.shape[:dim], *x.shape[dim + 1 :]):
        raise ShapeError(f"nll_loss: target of shape {classes.shape} must be {x.shape} without its dim {dim}")
    ones, zeros = (np.asarray(value, x.spec.dtype) for value in (1, 0))
    chosen = applied(operations.OneHot(dim), classes, x.shape[dim], ones, zeros)
    taken = (classes != ignore_index).astype(x.dtype)
    weighted = chosen if weight is None else chosen * _along(weight, dim, x.ndim)
    weights = taken if weight is None else weighted.sum(dim) * taken
    losses = -(x * weighted).sum(dim) * taken
    if label_smoothing:
        spread = x if weight is None else x * _along(weight, dim, x.ndim)
        even = -spread.sum(dim) * taken / x.shape[dim]
        losses = losses * (1.0 - label_smoothing) + even * label_smoothing
    if reduction == "mean":
        mean: Tensor = losses.sum() / weights.sum()
        return mean
    return reduced_loss(losses, reduction, "nll_loss")


def _along(weight: Any, dim: int, ndim: int) -> Tensor:
    """Return the weights of classes in a shape that is broadcast along all dims but ``dim``."""
    return as_tensor(weight).reshape((-1, *(1 for _ in range(dim + 1, ndim))))


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of ``softmax(input)`` and ``target``.

    Parameters
    ----------
    input : Tensor or array
        (n, classes, ...), logits.
    target : Tensor or array
        (n, ...) of integers: the classes; or of the shape of ``input``: the share of each class.
    weight : Tensor or array, optional
        (classes,).
    ignore_index : int
        The class where the loss is 0.
    reduction : {"mean", "sum", "none"}
        What is made of the losses; the mean is that of ``nll_loss`` for classes, and that of the rows for shares.
    label_smoothing : float
        The share of each loss that is given to all classes alike.

    Returns
    -------
    Tensor
        0-d, or (n, ...) without a reduction.

    Raises
    ------
    ShapeError
        When the target does not fit.
    ConfigurationError
        For another ``reduction``.

    Examples
    --------
    >>> round(float(cross_entropy(np.zeros((2, 4), np.float32), np.array([0, 3]))), 4)
    1.3863
    """
    x, wanted = as_tensor(input), as_tensor(target)
    dim = min(1, x.ndim - 1)
    logarithms = x.log_softmax(dim)
    if wanted.shape != x.shape:
        return nll_loss(logarithms, wanted, weight, ignore_index, reduction, label_smoothing)
    no_effect("cross_entropy", "ignore_index", ignore_index, "the target has shares, not classes", default=-100)
    shares = wanted * (1.0 - label_smoothing) + label_smoothing / x.shape[dim] if label_smoothing else wanted
    terms = logarithms * shares if weight is None else logarithms * shares * _along(weight, dim, x.ndim)
    return reduced_loss(-terms.sum(dim), reduction, "cross_entropy")
