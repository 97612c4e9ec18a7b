"""Losses of distances, as cells."""

from __future__ import annotations

from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.loss import L1Loss, LossBase
from mpiparallel.ops import regression_loss_functions as functions


class MAELoss(L1Loss):
    """``abs(logits - labels)``, by another of its names."""


class RMSELoss(LossBase):
    """The root of the mean of ``(logits - labels) ** 2``."""

    def __init__(self) -> None:
        super().__init__("mean")

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar."""
        return functions.mse_loss(logits, labels).sqrt()


class SmoothL1Loss(LossBase):
    """``d ** 2 / (2 * beta)`` where ``d = abs(logits - labels)`` is below ``beta``, ``d - beta / 2`` elsewhere."""

    def __init__(self, beta: float = 1.0, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.beta = beta

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the elements."""
        return functions.smooth_l1_loss(logits, labels, self.beta, self.reduction)


class HuberLoss(LossBase):
    """``delta`` times the smooth L1 loss of ``beta = delta``."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return a scalar, or the losses of the elements."""
        return functions.huber_loss(logits, labels, self.reduction, self.delta)
