"""What is made of the losses of all elements."""

from __future__ import annotations

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor


def reduced_loss(losses: Tensor, reduction: str, name: str) -> Tensor:
    """Return the mean, the sum, or the losses themselves; raise ConfigurationError for another reduction."""
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise ConfigurationError(f"{name}: reduction {reduction!r} is not one of 'mean', 'sum', 'none'")
    return losses.mean() if reduction == "mean" else losses.sum()
