"""Absolute and squared errors of predictions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from mpiparallel.errors import ShapeError
from mpiparallel.nn.metrics.metric import Array, Ratio, as_array


class Deviation(Ratio):
    """The sum of what an element's difference costs, divided by the number of samples: MindSpore's definition."""

    @abstractmethod
    def cost(self, difference: Array) -> float:
        """Return the sum over the elements of a batch."""

    def update(self, *inputs: Any) -> None:
        """Take predictions and labels with as many elements; their first dim counts the samples."""
        predicted, labels = (as_array(data) for data in inputs)
        if predicted.size != labels.size or not labels.ndim:
            raise ShapeError(f"{type(self).__name__}: predictions {predicted.shape} do not fit labels {labels.shape}")
        self.add(self.cost(predicted - labels.reshape(predicted.shape)), len(labels))


class MAE(Deviation):
    """The absolute error.

    Examples
    --------
    >>> metric = MAE()
    >>> metric.update(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    >>> metric.eval()
    1.5
    """

    def cost(self, difference: Array) -> float:
        """Return the sum over the elements of a batch."""
        return float(np.abs(difference).sum())


class MSE(Deviation):
    """The squared error.

    Examples
    --------
    >>> metric = MSE()
    >>> metric.update(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    >>> metric.eval()
    2.5
    """

    def cost(self, difference: Array) -> float:
        """Return the sum over the elements of a batch."""
        return float(np.square(difference).sum())
