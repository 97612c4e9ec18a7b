"""Training: Model, callbacks, progress, and state that moves to other ranks (MindSpore's ``train``)."""

from __future__ import annotations

from mpiparallel.train.callback import Callback as Callback
from mpiparallel.train.callback import CheckpointConfig as CheckpointConfig
from mpiparallel.train.callback import LossMonitor as LossMonitor
from mpiparallel.train.callback import ModelCheckpoint as ModelCheckpoint
from mpiparallel.train.callback import ProgressMonitor as ProgressMonitor
from mpiparallel.train.callback import RunContext as RunContext
from mpiparallel.train.callback import TimeMonitor as TimeMonitor
from mpiparallel.train.model import Model as Model

__all__ = [
    "Callback",
    "CheckpointConfig",
    "LossMonitor",
    "Model",
    "ModelCheckpoint",
    "ProgressMonitor",
    "RunContext",
    "TimeMonitor",
]
