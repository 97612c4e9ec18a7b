"""How often the label is the likeliest class, or among the likeliest."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.errors import ConfigurationError, DatasetError, ShapeError
from mpiparallel.nn.metrics.metric import Array, Ratio, as_array


class TopKCategoricalAccuracy(Ratio):
    """The share of samples whose label is among the ``k`` classes of the largest scores.

    Of equal scores the class of the lower index comes first. A score of NaN is above all others, and a label with such
    a score is never right.

    Parameters
    ----------
    k : int
        At least 1.

    Raises
    ------
    ConfigurationError
        When ``k`` is no such integer.

    Examples
    --------
    >>> metric = TopKCategoricalAccuracy(2)
    >>> metric.update(np.array([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), np.array([2, 2]))
    >>> metric.eval()
    0.5
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise ConfigurationError(f"{type(self).__name__}: k {k!r} must be an integer of at least 1")
        self.k = k

    def update(self, *inputs: Any) -> None:
        """Take scores (n, classes, ...) and labels (n, ...), or one-hot labels of the scores' shape.

        Raises ShapeError for other shapes, DatasetError for a label out of range.
        """
        scores, labels = (as_array(data) for data in inputs)
        places = self._places(scores, labels)
        self.add(int((places < self.k).sum()), places.size)

    def _places(self, scores: Array, labels: Array) -> Array:
        """Return the place of the label in the order of each sample's scores, counted from 0."""
        name = type(self).__name__
        if scores.ndim < 2:
            raise ShapeError(f"{name}: scores have shape {scores.shape}; they must be (n, classes, ...)")
        labels = labels.argmax(axis=1) if labels.shape == scores.shape else labels
        rows = np.moveaxis(scores, 1, -1)
        if labels.shape != rows.shape[:-1]:
            raise ShapeError(f"{name}: labels have shape {labels.shape}; scores of {scores.shape} need one a sample")
        if labels.dtype.kind not in "iu":
            raise ShapeError(f"{name}: labels are of dtype {labels.dtype}; give the indices of the classes")
        wrong = labels[(labels < 0) | (labels >= rows.shape[-1])]
        if wrong.size:
            raise DatasetError(f"{name}: label {wrong[0]} is out of range for {rows.shape[-1]} classes")
        own = np.take_along_axis(rows, labels[..., None].astype(np.int64), -1)
        earlier = np.arange(rows.shape[-1]) < labels[..., None]
        better: Array = (~(rows <= own) | ((rows == own) & earlier)).sum(-1)
        return better


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label has the largest score.

    Examples
    --------
    >>> metric = Top1CategoricalAccuracy()
    >>> metric.update(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))
    >>> metric.eval()
    0.5
    """

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label is among the five largest scores.

    Examples
    --------
    >>> metric = Top5CategoricalAccuracy()
    >>> metric.update(np.array([[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]] * 2), np.array([4, 5]))
    >>> metric.eval()
    0.5
    """

    def __init__(self) -> None:
        super().__init__(5)


class Accuracy(TopKCategoricalAccuracy):
    """The share of samples that are right.

    With ``eval_type`` "classification" the label must have the largest score. With "multilabel", predictions and labels
    (n, classes, ...) of 0 and 1 must be equal in all classes.

    Parameters
    ----------
    eval_type : {"classification", "multilabel"}
        What is right.

    Raises
    ------
    ConfigurationError
        For another ``eval_type``.

    Examples
    --------
    >>> metric = Accuracy()
    >>> metric.update(np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]), np.array([1, 0, 0]))
    >>> round(metric.eval(), 4)
    0.6667
    """

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(1)
        if eval_type not in ("classification", "multilabel"):
            raise ConfigurationError(f"Accuracy: eval_type {eval_type!r} is neither 'classification' nor 'multilabel'")
        self.eval_type = eval_type

    def update(self, *inputs: Any) -> None:
        """Take scores (n, classes, ...) and labels (n, ...), or labels of the scores' shape.

        Raises ShapeError for other shapes, DatasetError for a label out of range.
        """
        if self.eval_type == "classification":
            super().update(*inputs)
            return
        predicted, labels = (as_array(data) for data in inputs)
        if predicted.ndim < 2 or predicted.shape != labels.shape:
            raise ShapeError(f"Accuracy: predictions {predicted.shape} and labels {labels.shape} must be (n, classes)")
        right = (predicted == labels).all(axis=1)
        self.add(int(right.sum()), right.size)
