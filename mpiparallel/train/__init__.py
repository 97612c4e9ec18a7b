"""Training: Model, callbacks, progress, and state that moves to other ranks (MindSpore's ``train``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.train import amp as amp
from mpiparallel.train.callback import Callback as Callback
from mpiparallel.train.callback import CheckpointConfig as CheckpointConfig
from mpiparallel.train.callback import LossGuard as LossGuard
from mpiparallel.train.callback import LossMonitor as LossMonitor
from mpiparallel.train.callback import ModelCheckpoint as ModelCheckpoint
from mpiparallel.train.callback import ProgressMonitor as ProgressMonitor
from mpiparallel.train.callback import RunContext as RunContext
from mpiparallel.train.callback import TimeMonitor as TimeMonitor
from mpiparallel.train.dataset_helper import DatasetHelper as DatasetHelper
from mpiparallel.train.dataset_helper import connect_network_with_dataset as connect_network_with_dataset
from mpiparallel.train.loss_scale_manager import DynamicLossScaleManager as DynamicLossScaleManager
from mpiparallel.train.loss_scale_manager import FixedLossScaleManager as FixedLossScaleManager
from mpiparallel.train.loss_scale_manager import LossScaleManager as LossScaleManager
from mpiparallel.train.metrics import MAE as MAE
from mpiparallel.train.metrics import MSE as MSE
from mpiparallel.train.metrics import Accuracy as Accuracy
from mpiparallel.train.metrics import Loss as Loss
from mpiparallel.train.metrics import Metric as Metric
from mpiparallel.train.metrics import Top1CategoricalAccuracy as Top1CategoricalAccuracy
from mpiparallel.train.metrics import Top5CategoricalAccuracy as Top5CategoricalAccuracy
from mpiparallel.train.metrics import TopKCategoricalAccuracy as TopKCategoricalAccuracy
from mpiparallel.train.metrics import get_metric_fn as get_metric_fn
from mpiparallel.train.model import Model as Model

__all__ = [
    "MAE",
    "MSE",
    "Accuracy",
    "Callback",
    "CheckpointConfig",
    "DatasetHelper",
    "DynamicLossScaleManager",
    "FixedLossScaleManager",
    "Loss",
    "LossGuard",
    "LossMonitor",
    "LossScaleManager",
    "Metric",
    "Model",
    "ModelCheckpoint",
    "ProgressMonitor",
    "RunContext",
    "TimeMonitor",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "amp",
    "connect_network_with_dataset",
    "get_metric_fn",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__, ("callback", "serialization"))
