"""What an evaluation measures (MindSpore's ``nn.metrics``), by class and by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any

from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.metrics.accuracy import Accuracy as Accuracy
from mpiparallel.nn.metrics.accuracy import Top1CategoricalAccuracy as Top1CategoricalAccuracy
from mpiparallel.nn.metrics.accuracy import Top5CategoricalAccuracy as Top5CategoricalAccuracy
from mpiparallel.nn.metrics.accuracy import TopKCategoricalAccuracy as TopKCategoricalAccuracy
from mpiparallel.nn.metrics.deviation import MAE as MAE
from mpiparallel.nn.metrics.deviation import MSE as MSE
from mpiparallel.nn.metrics.loss import Loss as Loss
from mpiparallel.nn.metrics.metric import Metric as Metric
from mpiparallel.nn.metrics.metric import Ratio as Ratio

_BY_NAME: dict[str, Callable[..., Metric]] = {
    "acc": partial(Accuracy, "classification"),
    "accuracy": Accuracy,
    "loss": Loss,
    "mae": MAE,
    "mse": MSE,
    "top_1_accuracy": Top1CategoricalAccuracy,
    "top_5_accuracy": Top5CategoricalAccuracy,
    "topk": TopKCategoricalAccuracy,
}


def names() -> list[str]:
    """Return the names by which metrics are known."""
    return sorted(_BY_NAME)


def get_metric_fn(name: str, *args: Any, **kwargs: Any) -> Metric:
    """Return a new metric by its name.

    Parameters
    ----------
    name : str
        Such as "acc", "loss", "mae", "mse", "topk".
    *args, **kwargs
        What its class takes.

    Returns
    -------
    Metric
        As ``Model(metrics=...)`` makes it.

    Raises
    ------
    ConfigurationError
        For a name that is not known.

    Examples
    --------
    >>> type(get_metric_fn("topk", 3)).__name__
    'TopKCategoricalAccuracy'
    """
    if name not in _BY_NAME:
        near = get_close_matches(str(name), names(), 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"metric {name!r} is not known; known are {', '.join(names())}{meant}")
    return _BY_NAME[name](*args, **kwargs)
