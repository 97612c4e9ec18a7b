"""Cells around a network: with a loss, for evaluation, and for one step of training."""

from __future__ import annotations

from mpiparallel.nn.wrap.loss_cell import WithEvalCell as WithEvalCell
from mpiparallel.nn.wrap.loss_cell import WithLossCell as WithLossCell
from mpiparallel.nn.wrap.loss_scale import DynamicLossScaleUpdateCell as DynamicLossScaleUpdateCell
from mpiparallel.nn.wrap.loss_scale import FixedLossScaleUpdateCell as FixedLossScaleUpdateCell
from mpiparallel.nn.wrap.loss_scale import TrainOneStepWithLossScaleCell as TrainOneStepWithLossScaleCell
from mpiparallel.nn.wrap.train_one_step import DistributedGradReducer as DistributedGradReducer
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell as TrainOneStepCell

__all__ = [
    "DistributedGradReducer",
    "DynamicLossScaleUpdateCell",
    "FixedLossScaleUpdateCell",
    "TrainOneStepCell",
    "TrainOneStepWithLossScaleCell",
    "WithEvalCell",
    "WithLossCell",
]
