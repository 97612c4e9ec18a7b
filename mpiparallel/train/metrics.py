"""The place where MindSpore's users import metrics from, beside ``train`` itself."""

from mpiparallel.nn.metrics import MAE as MAE
from mpiparallel.nn.metrics import MSE as MSE
from mpiparallel.nn.metrics import Accuracy as Accuracy
from mpiparallel.nn.metrics import Loss as Loss
from mpiparallel.nn.metrics import Metric as Metric
from mpiparallel.nn.metrics import Top1CategoricalAccuracy as Top1CategoricalAccuracy
from mpiparallel.nn.metrics import Top5CategoricalAccuracy as Top5CategoricalAccuracy
from mpiparallel.nn.metrics import TopKCategoricalAccuracy as TopKCategoricalAccuracy
from mpiparallel.nn.metrics import get_metric_fn as get_metric_fn
from mpiparallel.nn.metrics import names as names

__all__ = [
    "MAE",
    "MSE",
    "Accuracy",
    "Loss",
    "Metric",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "get_metric_fn",
    "names",
]
