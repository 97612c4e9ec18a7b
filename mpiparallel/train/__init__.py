"""Training: Model, callbacks, progress, and state that moves to other ranks (MindSpore's ``train``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.absent_names import getattr_of
from mpiparallel.train import amp as amp
from mpiparallel.train.callback import Callback as Callback
from mpiparallel.train.callback import CheckpointConfig as CheckpointConfig
from mpiparallel.train.callback import LossGuard as LossGuard
from mpiparallel.train.callback import LossMonitor as LossMonitor
from mpiparallel.train.callback import ModelCheckpoint as ModelCheckpoint
from mpiparallel.train.callback import ProgressMonitor as ProgressMonitor
from mpiparallel.train.callback import RunContext as RunContext
from mpiparallel.train.callback import TimeMonitor as TimeMonitor
from mpiparallel.train.loss_scale_manager import DynamicLossScaleManager as DynamicLossScaleManager
from mpiparallel.train.loss_scale_manager import FixedLossScaleManager as FixedLossScaleManager
from mpiparallel.train.loss_scale_manager import LossScaleManager as LossScaleManager
from mpiparallel.train.model import Model as Model

__all__ = [
    "Callback",
    "CheckpointConfig",
    "DynamicLossScaleManager",
    "FixedLossScaleManager",
    "LossGuard",
    "LossMonitor",
    "LossScaleManager",
    "Model",
    "ModelCheckpoint",
    "ProgressMonitor",
    "RunContext",
    "TimeMonitor",
    "amp",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__, ("callback", "serialization"))
