"""Loss functions as cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.ops.functions.losses import binary_cross_entropy_with_logits

__path__: list[str] = []
"""No folder: MindSpore's ``nn.loss.loss`` is in ``mindspore_paths``."""


class LossBase(Cell):
    """What losses share: the reduction of the losses of all elements. A subclass returns ``self.get_loss(losses)``.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Raises
    ------
    ConfigurationError
        For another reduction.

    Examples
    --------
    >>> float(LossBase("sum").get_loss(Tensor([1.0, 2.0]), 2.0))
    6.0
    """

    keeps_float32 = True

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ConfigurationError(
                f"{type(self).__name__}: reduction {reduction!r} is not one of 'mean', 'sum', 'none'"
            )
        self.reduction = reduction
        self.reduce_mean = ops.ReduceMean()
        self.reduce_sum = ops.ReduceSum()

    def get_loss(self, x: Tensor, weights: float | Tensor = 1.0) -> Tensor:
        """Return the reduction of ``x * weights``."""
        weighted = x if isinstance(weights, float) and weights == 1.0 else x * weights
        if self.reduction == "none":
            return weighted
        reduced: Tensor = (self.reduce_mean if self.reduction == "mean" else self.reduce_sum)(weighted)
        return reduced


class MSELoss(LossBase):
    """``(logits - labels) ** 2``.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Examples
    --------
    >>> float(MSELoss()(Tensor([1.0, 3.0]), Tensor([1.0, 1.0])))
    2.0
    """

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the elements."""
        return self.get_loss(ops.Square()(logits - labels))


class L1Loss(LossBase):
    """``abs(logits - labels)``.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Examples
    --------
    >>> float(L1Loss()(Tensor([1.0, 2.0]), Tensor([1.0, 4.0])))
    1.0
    """

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the elements."""
        return self.get_loss(ops.Abs()(logits - labels))


class SoftmaxCrossEntropyWithLogits(LossBase):
    """``-sum(labels * log(softmax(logits)))`` for each row of ``logits`` (n, classes).

    ``labels`` are probabilities (n, classes), or with ``sparse`` the classes (n,). The operators are
    ``softmax_cross_entropy``, ``sparse_softmax_cross_entropy`` (sparse and "mean") and ``one_hot``.

    Parameters
    ----------
    sparse : bool
        Whether labels are classes.
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Examples
    --------
    >>> loss = SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    >>> round(float(loss(Tensor([[0.0, 0.0]]), Tensor([1]))), 4)
    0.6931
    """

    def __init__(self, sparse: bool = False, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.sparse = sparse
        self.softmax_cross_entropy = ops.SoftmaxCrossEntropyWithLogits()
        self.sparse_softmax_cross_entropy = ops.SparseSoftmaxCrossEntropyWithLogits()
        self.one_hot = ops.OneHot()

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the rows."""
        if self.sparse and self.reduction == "mean":
            mean: Tensor = self.sparse_softmax_cross_entropy(logits, labels)
            return mean
        if self.sparse:
            one, zero = (np.asarray(value, logits.dtype) for value in (1, 0))
            labels = self.one_hot(labels, logits.shape[-1], one, zero)
        return self.get_loss(self.softmax_cross_entropy(logits, labels)[0])


class BCEWithLogitsLoss(LossBase):
    """``-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits))`` of each element.

    Times ``weight``, and the first term times ``pos_weight``. Without them the operator is ``sigmoid_cross_entropy``.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What is made of the losses.
    weight, pos_weight : Tensor or array, optional
        Of shapes that broadcast.

    Examples
    --------
    >>> round(float(BCEWithLogitsLoss()(Tensor([0.0]), Tensor([1.0]))), 4)
    0.6931
    """

    def __init__(self, reduction: str = "mean", weight: Any = None, pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self.weight, self.pos_weight = weight, pos_weight
        self.sigmoid_cross_entropy = ops.SigmoidCrossEntropyWithLogits()

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the elements."""
        if self.weight is None and self.pos_weight is None:
            return self.get_loss(self.sigmoid_cross_entropy(logits, labels))
        given = (self.weight, self.pos_weight, self.reduction)
        return binary_cross_entropy_with_logits(logits, labels, *given)
