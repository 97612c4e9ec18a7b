"""What metrics share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from mpiparallel.errors import DatasetError
from mpiparallel.graph.tensor import Tensor

Array = np.ndarray[Any, Any]


class Metric(ABC):
    """A number that an evaluation gives: ``clear`` before it, ``update`` with each batch, ``eval`` at its end.

    ``totals`` are the numbers that ``eval`` computes from, where those of several batches, and of several ranks with
    batches of their own, are added up. A metric without totals (None) cannot be evaluated over such ranks.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> issubclass(nn.Accuracy, Metric)
    True
    """

    totals: Array | None = None

    @abstractmethod
    def clear(self) -> None:
        """Forget all batches."""

    @abstractmethod
    def update(self, *inputs: Any) -> None:
        """Take a batch: the outputs of the network and the labels, as tensors or arrays."""

    @abstractmethod
    def eval(self) -> Any:
        """Return the number for all batches since ``clear``."""


class Ratio(Metric):
    """A metric that is one sum divided by another, such as right samples by all samples."""

    totals: Array

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self.totals = np.zeros(2)

    def add(self, part: float, whole: float) -> None:
        """Add a batch to both sums."""
        self.totals += (part, whole)

    def eval(self) -> float:
        """Return the ratio; raise DatasetError when there was no sample."""
        part, whole = self.totals
        if not whole:
            raise DatasetError(f"{type(self).__name__}: there is no sample to evaluate; call update with some first")
        return float(part / whole)


def as_array(data: Any) -> Array:
    """Return what a metric was given as a NumPy array."""
    return data.asnumpy() if isinstance(data, Tensor) else np.asarray(data)
