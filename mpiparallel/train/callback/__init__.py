"""What happens between steps: monitors and checkpoints (MindSpore's ``train.callback``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.train.callback.callback import Callback as Callback
from mpiparallel.train.callback.callback import RunContext as RunContext
from mpiparallel.train.callback.checkpoint import ModelCheckpoint as ModelCheckpoint
from mpiparallel.train.callback.checkpoint_config import CheckpointConfig as CheckpointConfig
from mpiparallel.train.callback.loss_guard import LossGuard as LossGuard
from mpiparallel.train.callback.monitor import LossMonitor as LossMonitor
from mpiparallel.train.callback.monitor import TimeMonitor as TimeMonitor
from mpiparallel.train.callback.progress import ProgressMonitor as ProgressMonitor

__all__ = [
    "Callback",
    "CheckpointConfig",
    "LossGuard",
    "LossMonitor",
    "ModelCheckpoint",
    "ProgressMonitor",
    "RunContext",
    "TimeMonitor",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
