"""Losses that are made of other operators; ``reduction`` is "mean", "sum" or "none"."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied
from mpiparallel.remark import no_effect


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(x)


def _reduced(losses: Tensor, reduction: str, name: str) -> Tensor:
    """Return the mean, the sum, or the losses themselves; raise ConfigurationError for another reduction."""
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise ConfigurationError(f"{name}: reduction {reduction!r} is not one of 'mean', 'sum', 'none'")
    return losses.mean() if reduction == "mean" else losses.sum()


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Return the reduction of ``(input - target) ** 2``."""
    return _reduced((_tensor(input) - target).square(), reduction, "mse_loss")


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Return the reduction of ``abs(input - target)``."""
    return _reduced((_tensor(input) - target).abs(), reduction, "l1_loss")


def smooth_l1_loss(input: Any, target: Any, beta: float = 1.0, reduction: str = "none") -> Tensor:
    """Return the reduction of ``d ** 2 / (2 * beta)`` where ``d = abs(input - target)`` is below ``beta``, else ``d -
    beta / 2``.
    """
    far = (_tensor(input) - target).abs()
    losses = applied(operations.Select(), far < beta, far.square() / (2.0 * beta), far - beta / 2.0)
    return _reduced(losses, reduction, "smooth_l1_loss")


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Return the reduction of ``delta`` times the smooth L1 loss of ``beta = delta``."""
    return _reduced(smooth_l1_loss(input, target, delta) * delta, reduction, "huber_loss")


def kl_div(logits: Any, labels: Any, reduction: str = "mean") -> Tensor:
    """Return the reduction of ``labels * (log(labels) - logits)``, 0 where labels are 0; logits are logarithms.

    ``reduction`` may also be "batchmean", the sum divided by the number of rows.
    """
    x, p = _tensor(logits), _tensor(labels)
    positive = p > 0
    safe = applied(operations.Select(), positive, p, applied(operations.OnesLike(), p))
    losses = applied(operations.Select(), positive, p * (safe.log() - x), applied(operations.ZerosLike(), p))
    if reduction == "batchmean":
        return losses.sum() / x.shape[0]
    return _reduced(losses, reduction, "kl_div")


def binary_cross_entropy(logits: Any, labels: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """Return the reduction of ``-labels * log(logits) - (1 - labels) * log(1 - logits)``, times ``weight``.

    ``logits`` are probabilities; their logarithms are taken as no less than -100.
    """
    p, y = _tensor(logits), _tensor(labels)
    losses = -(y * _log(p) + (1.0 - y) * _log(1.0 - p))
    return _reduced(losses if weight is None else losses * weight, reduction, "binary_cross_entropy")


def _log(p: Tensor) -> Tensor:
    return p.maximum(float(np.exp(-100.0)) if p.dtype == np.float64 else float(np.finfo(np.float32).tiny)).log()


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """Return the reduction of ``-pos_weight * target * log(s) - (1 - target) * log(1 - s)``, ``s = sigmoid(input)``,
    times ``weight``.
    """
    x, y = _tensor(input), _tensor(target)
    losses = applied(operations.SigmoidCrossEntropyWithLogits(), x, y)
    if pos_weight is not None:
        losses = losses + y * (_tensor(pos_weight) - 1.0) * applied(
            operations.SigmoidCrossEntropyWithLogits(), x, applied(operations.OnesLike(), x)
        )
    return _reduced(losses if weight is None else losses * weight, reduction, "binary_cross_entropy_with_logits")


def nll_loss(
    inputs: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the reduction of ``-weight[t] * inputs[n, t]``, ``inputs`` (n, classes, ...) being logarithms of shares.

    ``target`` (n, ...) has the classes t; where it is ``ignore_index`` the loss is 0. The mean divides by the sum
    of the weights that took part. ``label_smoothing`` gives that share of each loss to all classes alike.
    """
    x, classes = _tensor(inputs), _tensor(target)
    dim = min(1, x.ndim - 1)
    if classes.shape != (*x.shape[:dim], *x.shape[dim + 1 :]):
        raise ShapeError(f"nll_loss: target of shape {classes.shape} must be {x.shape} without its dim {dim}")
    ones, zeros = (np.asarray(value, x.spec.dtype) for value in (1, 0))
    chosen = applied(operations.OneHot(dim if dim < x.ndim - 1 else -1), classes, x.shape[dim], ones, zeros)
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
    return _reduced(losses, reduction, "nll_loss")


def _along(weight: Any, dim: int, ndim: int) -> Tensor:
    """Return the weights of classes in a shape that is broadcast along all dims but ``dim``."""
    return _tensor(weight).reshape((-1, *(1 for _ in range(dim + 1, ndim))))


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of ``softmax(input)``, ``input`` being (n, classes, ...), and ``target``.

    ``target`` (n, ...) of integers has the classes, as ``nll_loss`` takes them; a target of the shape of ``input`` has
    the share of each class, and the mean is that of the rows.

    >>> round(float(cross_entropy(np.zeros((2, 4), np.float32), np.array([0, 3]))), 4)
    1.3863
    """
    x, wanted = _tensor(input), _tensor(target)
    dim = min(1, x.ndim - 1)
    logarithms = x.log_softmax(dim)
    if wanted.shape != x.shape:
        return nll_loss(logarithms, wanted, weight, ignore_index, reduction, label_smoothing)
    no_effect("cross_entropy", "ignore_index", ignore_index, "the target has shares, not classes", default=-100)
    shares = wanted * (1.0 - label_smoothing) + label_smoothing / x.shape[dim] if label_smoothing else wanted
    terms = logarithms * shares if weight is None else logarithms * shares * _along(weight, dim, x.ndim)
    return _reduced(-terms.sum(dim), reduction, "cross_entropy")
