"""Losses of classes and of shares, as cells."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.losses.loss import LossBase
from mpiparallel.ops.functions import losses


class NLLLoss(LossBase):
    """``-weight[label] * logits[n, label]``, ``logits`` (n, classes, ...) being logarithms of probabilities.

    Parameters
    ----------
    weight : Tensor or array, optional
        (classes,).
    ignore_index : int
        The label where the loss is 0.
    reduction : {"mean", "sum", "none"}
        What is made of the losses; the mean divides by the weights that took part.

    Raises
    ------
    ShapeError
        When labels are not (n, ...).

    Examples
    --------
    >>> float(NLLLoss()(Tensor([[-1.0, -2.0]]), Tensor([1])))
    2.0
    """

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight, self.ignore_index = weight, ignore_index

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the rows."""
        return losses.nll_loss(logits, labels, self.weight, self.ignore_index, self.reduction)


class CrossEntropyLoss(LossBase):
    """The cross entropy of ``softmax(logits)``, ``logits`` being (n, classes, ...), and labels: classes or shares.

    Parameters
    ----------
    weight, ignore_index, reduction
        As of NLLLoss.
    label_smoothing : float
        The share of each loss that is given to all classes alike.

    Examples
    --------
    >>> round(float(CrossEntropyLoss()(Tensor([[0.0, 0.0]]), Tensor([1]))), 4)
    0.6931
    """

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(reduction)
        self.weight, self.ignore_index, self.label_smoothing = weight, ignore_index, label_smoothing

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the rows."""
        given = (self.weight, self.ignore_index, self.reduction, self.label_smoothing)
        return losses.cross_entropy(logits, labels, *given)


class BCELoss(LossBase):
    """``-labels * log(logits) - (1 - labels) * log(1 - logits)`` of each element, times ``weight``.

    Parameters
    ----------
    weight : Tensor or array, optional
        Of a shape that broadcasts.
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Examples
    --------
    >>> round(float(BCELoss()(Tensor([0.5]), Tensor([1.0]))), 4)
    0.6931
    """

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = weight

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the elements."""
        return losses.binary_cross_entropy(logits, labels, self.weight, self.reduction)


class KLDivLoss(LossBase):
    """``labels * (log(labels) - logits)`` of each element, ``logits`` being logarithms.

    Parameters
    ----------
    reduction : {"mean", "sum", "none", "batchmean"}
        What is made of the losses; "batchmean" is the sum divided by the number of rows.

    Examples
    --------
    >>> float(KLDivLoss()(Tensor([0.0, 0.0]), Tensor([1.0, 0.0])))
    0.0
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__("mean" if reduction == "batchmean" else reduction)
        self.reduction = reduction

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the elements."""
        return losses.kl_div(logits, labels, self.reduction)
