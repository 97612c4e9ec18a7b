"""Optimizers: cells that overwrite parameters along their gradients."""

from __future__ import annotations

from mpiparallel.nn.optimizer.adam import Adam as Adam
from mpiparallel.nn.optimizer.adam_weight_decay import AdamWeightDecay as AdamWeightDecay
from mpiparallel.nn.optimizer.momentum import Momentum as Momentum
from mpiparallel.nn.optimizer.optimizer import Optimizer as Optimizer
from mpiparallel.nn.optimizer.sgd import SGD as SGD

__all__ = ["SGD", "Adam", "AdamWeightDecay", "Momentum", "Optimizer"]
