"""Losses of distances, as cells."""

from __future__ import annotations

from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.losses.loss import L1Loss, LossBase
from mpiparallel.ops.functions import regression_losses


class MAELoss(L1Loss):
    """``abs(logits - labels)``, by another of its names.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Examples
    --------
    >>> float(MAELoss()(Tensor([1.0, 2.0]), Tensor([1.0, 4.0])))
    1.0
    """


class RMSELoss(LossBase):
    """The root of the mean of ``(logits - labels) ** 2``.

    Examples
    --------
    >>> float(RMSELoss()(Tensor([1.0, 4.0]), Tensor([4.0, 1.0])))
    3.0
    """

    def __init__(self) -> None:
        super().__init__("mean")

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar."""
        return regression_losses.mse_loss(logits, labels).sqrt()


class SmoothL1Loss(LossBase):
    """``d ** 2 / (2 * beta)`` where ``d = abs(logits - labels)`` is below ``beta``, ``d - beta / 2`` elsewhere.

    Parameters
    ----------
    beta : float
        Above 0.
    reduction : {"mean", "sum", "none"}
        What is made of the losses.

    Examples
    --------
    >>> SmoothL1Loss()(Tensor([1.0, 2.0]), Tensor([2.0, 4.0])).asnumpy().tolist()
    [0.5, 1.5]
    """

    def __init__(self, beta: float = 1.0, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.beta = beta

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the elements."""
        return regression_losses.smooth_l1_loss(logits, labels, self.beta, self.reduction)


class HuberLoss(LossBase):
    """``delta`` times the smooth L1 loss of ``beta = delta``.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What is made of the losses.
    delta : float
        Above 0.

    Examples
    --------
    >>> float(HuberLoss()(Tensor([1.0, 2.0]), Tensor([2.0, 4.0])))
    1.0
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the elements."""
        return regression_losses.huber_loss(logits, labels, self.reduction, self.delta)
