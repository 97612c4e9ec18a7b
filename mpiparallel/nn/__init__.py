"""Cells, layers, losses and optimizers (MindSpore's ``nn``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.nn.activation import GELU as GELU
from mpiparallel.nn.activation import ReLU as ReLU
from mpiparallel.nn.activation import Sigmoid as Sigmoid
from mpiparallel.nn.activation import Softmax as Softmax
from mpiparallel.nn.activation import Tanh as Tanh
from mpiparallel.nn.activation import get_activation as get_activation
from mpiparallel.nn.batch_norm import BatchNorm1d as BatchNorm1d
from mpiparallel.nn.batch_norm import BatchNorm2d as BatchNorm2d
from mpiparallel.nn.cell import Cell as Cell
from mpiparallel.nn.clip import ClipByNorm as ClipByNorm
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
from mpiparallel.nn.learning_rate_schedule import CosineDecayLR as CosineDecayLR
from mpiparallel.nn.learning_rate_schedule import ExponentialDecayLR as ExponentialDecayLR
from mpiparallel.nn.learning_rate_schedule import InverseDecayLR as InverseDecayLR
from mpiparallel.nn.learning_rate_schedule import LearningRateSchedule as LearningRateSchedule
from mpiparallel.nn.learning_rate_schedule import NaturalExpDecayLR as NaturalExpDecayLR
from mpiparallel.nn.learning_rate_schedule import PolynomialDecayLR as PolynomialDecayLR
from mpiparallel.nn.learning_rate_schedule import WarmUpLR as WarmUpLR
from mpiparallel.nn.losses.classification_loss import BCELoss as BCELoss
from mpiparallel.nn.losses.classification_loss import CrossEntropyLoss as CrossEntropyLoss
from mpiparallel.nn.losses.classification_loss import KLDivLoss as KLDivLoss
from mpiparallel.nn.losses.classification_loss import NLLLoss as NLLLoss
from mpiparallel.nn.losses.loss import BCEWithLogitsLoss as BCEWithLogitsLoss
from mpiparallel.nn.losses.loss import L1Loss as L1Loss
from mpiparallel.nn.losses.loss import LossBase as LossBase
from mpiparallel.nn.losses.loss import MSELoss as MSELoss
from mpiparallel.nn.losses.loss import SoftmaxCrossEntropyWithLogits as SoftmaxCrossEntropyWithLogits
from mpiparallel.nn.losses.regression_loss import HuberLoss as HuberLoss
from mpiparallel.nn.losses.regression_loss import MAELoss as MAELoss
from mpiparallel.nn.losses.regression_loss import RMSELoss as RMSELoss
from mpiparallel.nn.losses.regression_loss import SmoothL1Loss as SmoothL1Loss
from mpiparallel.nn.metrics import MAE as MAE
from mpiparallel.nn.metrics import MSE as MSE
from mpiparallel.nn.metrics import Accuracy as Accuracy
from mpiparallel.nn.metrics import Loss as Loss
from mpiparallel.nn.metrics import Metric as Metric
from mpiparallel.nn.metrics import Top1CategoricalAccuracy as Top1CategoricalAccuracy
from mpiparallel.nn.metrics import Top5CategoricalAccuracy as Top5CategoricalAccuracy
from mpiparallel.nn.metrics import TopKCategoricalAccuracy as TopKCategoricalAccuracy
from mpiparallel.nn.metrics import get_metric_fn as get_metric_fn
from mpiparallel.nn.optimizer.adam import Adam as Adam
from mpiparallel.nn.optimizer.adam_weight_decay import AdamWeightDecay as AdamWeightDecay
from mpiparallel.nn.optimizer.momentum import Momentum as Momentum
from mpiparallel.nn.optimizer.optimizer import Optimizer as Optimizer
from mpiparallel.nn.optimizer.sgd import SGD as SGD
from mpiparallel.nn.padding import Pad as Pad
from mpiparallel.nn.pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from mpiparallel.nn.pooling import AvgPool2d as AvgPool2d
from mpiparallel.nn.pooling import Flatten as Flatten
from mpiparallel.nn.pooling import MaxPool2d as MaxPool2d
from mpiparallel.nn.smooth_activation import ELU as ELU
from mpiparallel.nn.smooth_activation import HSigmoid as HSigmoid
from mpiparallel.nn.smooth_activation import HSwish as HSwish
from mpiparallel.nn.smooth_activation import Identity as Identity
from mpiparallel.nn.smooth_activation import LeakyReLU as LeakyReLU
from mpiparallel.nn.smooth_activation import LogSigmoid as LogSigmoid
from mpiparallel.nn.smooth_activation import LogSoftmax as LogSoftmax
from mpiparallel.nn.smooth_activation import Mish as Mish
from mpiparallel.nn.smooth_activation import PReLU as PReLU
from mpiparallel.nn.smooth_activation import ReLU6 as ReLU6
from mpiparallel.nn.smooth_activation import SeLU as SeLU
from mpiparallel.nn.smooth_activation import SiLU as SiLU
from mpiparallel.nn.smooth_activation import Softsign as Softsign
from mpiparallel.nn.wrap.loss_cell import WithEvalCell as WithEvalCell
from mpiparallel.nn.wrap.loss_cell import WithLossCell as WithLossCell
from mpiparallel.nn.wrap.loss_scale import DynamicLossScaleUpdateCell as DynamicLossScaleUpdateCell
from mpiparallel.nn.wrap.loss_scale import FixedLossScaleUpdateCell as FixedLossScaleUpdateCell
from mpiparallel.nn.wrap.loss_scale import TrainOneStepWithLossScaleCell as TrainOneStepWithLossScaleCell
from mpiparallel.nn.wrap.pipeline_cell import PipelineCell as PipelineCell
from mpiparallel.nn.wrap.train_one_step import DistributedGradReducer as DistributedGradReducer
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell as TrainOneStepCell

__all__ = [
    "ELU",
    "GELU",
    "MAE",
    "MSE",
    "SGD",
    "Accuracy",
    "Adam",
    "AdamWeightDecay",
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Cell",
    "CellList",
    "ClipByNorm",
    "Conv2d",
    "CosineDecayLR",
    "CrossEntropyLoss",
    "Dense",
    "DistributedGradReducer",
    "Dropout",
    "DynamicLossScaleUpdateCell",
    "Embedding",
    "ExponentialDecayLR",
    "FixedLossScaleUpdateCell",
    "Flatten",
    "HSigmoid",
    "HSwish",
    "HuberLoss",
    "Identity",
    "InverseDecayLR",
    "KLDivLoss",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "LearningRateSchedule",
    "LogSigmoid",
    "LogSoftmax",
    "Loss",
    "LossBase",
    "MAELoss",
    "MSELoss",
    "MaxPool2d",
    "Metric",
    "Mish",
    "Momentum",
    "NLLLoss",
    "NaturalExpDecayLR",
    "Optimizer",
    "PReLU",
    "Pad",
    "PipelineCell",
    "PolynomialDecayLR",
    "RMSELoss",
    "ReLU",
    "ReLU6",
    "SeLU",
    "SequentialCell",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "SoftmaxCrossEntropyWithLogits",
    "Softsign",
    "Tanh",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "TrainOneStepCell",
    "TrainOneStepWithLossScaleCell",
    "WarmUpLR",
    "WithEvalCell",
    "WithLossCell",
    "cosine_decay_lr",
    "exponential_decay_lr",
    "get_activation",
    "get_metric_fn",
    "piecewise_constant_lr",
    "polynomial_decay_lr",
    "warmup_lr",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__, ("optim", "transformer"))
