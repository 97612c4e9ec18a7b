"""Cells, layers, losses and optimizers (MindSpore's ``nn``)."""

from __future__ import annotations

from mpiparallel.nn.activation import GELU as GELU
from mpiparallel.nn.activation import ReLU as ReLU
from mpiparallel.nn.activation import Sigmoid as Sigmoid
from mpiparallel.nn.activation import Softmax as Softmax
from mpiparallel.nn.activation import Tanh as Tanh
from mpiparallel.nn.activation import get_activation as get_activation
from mpiparallel.nn.batch_norm import BatchNorm2d as BatchNorm2d
from mpiparallel.nn.cell import Cell as Cell
from mpiparallel.nn.containers import CellList as CellList
from mpiparallel.nn.containers import SequentialCell as SequentialCell
from mpiparallel.nn.conv import Conv2d as Conv2d
from mpiparallel.nn.dense import Dense as Dense
from mpiparallel.nn.dropout import Dropout as Dropout
from mpiparallel.nn.dynamic_lr import cosine_decay_lr as cosine_decay_lr
from mpiparallel.nn.dynamic_lr import exponential_decay_lr as exponential_decay_lr
from mpiparallel.nn.dynamic_lr import piecewise_constant_lr as piecewise_constant_lr
from mpiparallel.nn.dynamic_lr import polynomial_decay_lr as polynomial_decay_lr
from mpiparallel.nn.dynamic_lr import warmup_lr as warmup_lr
from mpiparallel.nn.embedding import Embedding as Embedding
from mpiparallel.nn.layer_norm import LayerNorm as LayerNorm
from mpiparallel.nn.loss import L1Loss as L1Loss
from mpiparallel.nn.loss import LossBase as LossBase
from mpiparallel.nn.loss import MSELoss as MSELoss
from mpiparallel.nn.loss import SoftmaxCrossEntropyWithLogits as SoftmaxCrossEntropyWithLogits
from mpiparallel.nn.optimizer.adam import Adam as Adam
from mpiparallel.nn.optimizer.adam_weight_decay import AdamWeightDecay as AdamWeightDecay
from mpiparallel.nn.optimizer.momentum import Momentum as Momentum
from mpiparallel.nn.optimizer.optimizer import Optimizer as Optimizer
from mpiparallel.nn.optimizer.sgd import SGD as SGD
from mpiparallel.nn.pooling import AvgPool2d as AvgPool2d
from mpiparallel.nn.pooling import Flatten as Flatten
from mpiparallel.nn.pooling import MaxPool2d as MaxPool2d
from mpiparallel.nn.wrapper import TrainOneStepCell as TrainOneStepCell
from mpiparallel.nn.wrapper import WithEvalCell as WithEvalCell
from mpiparallel.nn.wrapper import WithLossCell as WithLossCell

__all__ = [
    "GELU",
    "SGD",
    "Adam",
    "AdamWeightDecay",
    "AvgPool2d",
    "BatchNorm2d",
    "Cell",
    "CellList",
    "Conv2d",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "L1Loss",
    "LayerNorm",
    "LossBase",
    "MSELoss",
    "MaxPool2d",
    "Momentum",
    "Optimizer",
    "ReLU",
    "SequentialCell",
    "Sigmoid",
    "Softmax",
    "SoftmaxCrossEntropyWithLogits",
    "Tanh",
    "TrainOneStepCell",
    "WithEvalCell",
    "WithLossCell",
    "cosine_decay_lr",
    "exponential_decay_lr",
    "get_activation",
    "piecewise_constant_lr",
    "polynomial_decay_lr",
    "warmup_lr",
]
