"""MindSpore's module of operator classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.absent_names import getattr_of
from mpiparallel.ops.activation import GeLU as GeLU
from mpiparallel.ops.activation import GeluGrad as GeluGrad
from mpiparallel.ops.activation import ReLU as ReLU
from mpiparallel.ops.activation import ReluGrad as ReluGrad
from mpiparallel.ops.activation import Sigmoid as Sigmoid
from mpiparallel.ops.activation import SigmoidGrad as SigmoidGrad
from mpiparallel.ops.adaptive_pooling import AdaptiveAvgPool2D as AdaptiveAvgPool2D
from mpiparallel.ops.addition import AddN as AddN
from mpiparallel.ops.addition import BiasAdd as BiasAdd
from mpiparallel.ops.arithmetic import Add as Add
from mpiparallel.ops.arithmetic import Div as Div
from mpiparallel.ops.arithmetic import FloorDiv as FloorDiv
from mpiparallel.ops.arithmetic import FloorMod as FloorMod
from mpiparallel.ops.arithmetic import Maximum as Maximum
from mpiparallel.ops.arithmetic import Minimum as Minimum
from mpiparallel.ops.arithmetic import Mul as Mul
from mpiparallel.ops.arithmetic import Pow as Pow
from mpiparallel.ops.arithmetic import RealDiv as RealDiv
from mpiparallel.ops.arithmetic import Sub as Sub
from mpiparallel.ops.batch_norm_steps import BNInfer as BNInfer
from mpiparallel.ops.batch_norm_steps import BNInferGrad as BNInferGrad
from mpiparallel.ops.batch_norm_steps import BNTrainingReduceGrad as BNTrainingReduceGrad
from mpiparallel.ops.batch_norm_steps import BNTrainingUpdate as BNTrainingUpdate
from mpiparallel.ops.batch_norm_steps import BNTrainingUpdateGrad as BNTrainingUpdateGrad
from mpiparallel.ops.batch_normalization import BatchNorm as BatchNorm
from mpiparallel.ops.batch_statistics import BNMoments as BNMoments
from mpiparallel.ops.batch_statistics import BNTrainingReduce as BNTrainingReduce
from mpiparallel.ops.batch_statistics import BNTrainingReduceInputGrad as BNTrainingReduceInputGrad
from mpiparallel.ops.comparison import Equal as Equal
from mpiparallel.ops.comparison import Greater as Greater
from mpiparallel.ops.comparison import GreaterEqual as GreaterEqual
from mpiparallel.ops.comparison import Less as Less
from mpiparallel.ops.comparison import LessEqual as LessEqual
from mpiparallel.ops.comparison import LogicalAnd as LogicalAnd
from mpiparallel.ops.comparison import LogicalNot as LogicalNot
from mpiparallel.ops.comparison import LogicalOr as LogicalOr
from mpiparallel.ops.comparison import NotEqual as NotEqual
from mpiparallel.ops.comparison import Select as Select
from mpiparallel.ops.constant import Fill as Fill
from mpiparallel.ops.constant import Ones as Ones
from mpiparallel.ops.constant import OnesLike as OnesLike
from mpiparallel.ops.constant import Range as Range
from mpiparallel.ops.constant import StopGradient as StopGradient
from mpiparallel.ops.constant import Zeros as Zeros
from mpiparallel.ops.constant import ZerosLike as ZerosLike
from mpiparallel.ops.convolution.convolution import Conv2D as Conv2D
from mpiparallel.ops.convolution.convolution import Conv2DBackpropFilter as Conv2DBackpropFilter
from mpiparallel.ops.convolution.convolution import Conv2DBackpropInput as Conv2DBackpropInput
from mpiparallel.ops.cross_entropy_loss import SoftmaxCrossEntropyWithLogits as SoftmaxCrossEntropyWithLogits
from mpiparallel.ops.cross_entropy_loss import (
    SparseSoftmaxCrossEntropyWithLogits as SparseSoftmaxCrossEntropyWithLogits,
)
from mpiparallel.ops.cross_entropy_loss import SumExp as SumExp
from mpiparallel.ops.cross_entropy_loss import SumExpGrad as SumExpGrad
from mpiparallel.ops.cumulation import CumSum as CumSum
from mpiparallel.ops.dropout_mask import Dropout as Dropout
from mpiparallel.ops.dropout_mask import DropoutGrad as DropoutGrad
from mpiparallel.ops.edge_padding import Pad as Pad
from mpiparallel.ops.elementwise import Abs as Abs
from mpiparallel.ops.elementwise import Cast as Cast
from mpiparallel.ops.elementwise import Cos as Cos
from mpiparallel.ops.elementwise import Exp as Exp
from mpiparallel.ops.elementwise import Floor as Floor
from mpiparallel.ops.elementwise import Log as Log
from mpiparallel.ops.elementwise import Neg as Neg
from mpiparallel.ops.elementwise import Reciprocal as Reciprocal
from mpiparallel.ops.elementwise import Rsqrt as Rsqrt
from mpiparallel.ops.elementwise import Sign as Sign
from mpiparallel.ops.elementwise import Sin as Sin
from mpiparallel.ops.elementwise import Sqrt as Sqrt
from mpiparallel.ops.elementwise import Square as Square
from mpiparallel.ops.elementwise import Tanh as Tanh
from mpiparallel.ops.float_status import FloatStatus as FloatStatus
from mpiparallel.ops.gathering import Gather as Gather
from mpiparallel.ops.gathering import GatherGrad as GatherGrad
from mpiparallel.ops.gathering import GatherLast as GatherLast
from mpiparallel.ops.gathering import GatherLastGrad as GatherLastGrad
from mpiparallel.ops.gradient import GradOperation as GradOperation
from mpiparallel.ops.identity import Identity as Identity
from mpiparallel.ops.inspection import DType as DType
from mpiparallel.ops.inspection import Rank as Rank
from mpiparallel.ops.inspection import Shape as Shape
from mpiparallel.ops.inspection import Size as Size
from mpiparallel.ops.layer_normalization import LayerNorm as LayerNorm
from mpiparallel.ops.layer_normalization import LayerNormGrad as LayerNormGrad
from mpiparallel.ops.matrix_product import BatchMatMul as BatchMatMul
from mpiparallel.ops.matrix_product import MatMul as MatMul
from mpiparallel.ops.movement import Concat as Concat
from mpiparallel.ops.movement import Split as Split
from mpiparallel.ops.movement import Stack as Stack
from mpiparallel.ops.movement import Unstack as Unstack
from mpiparallel.ops.moving_average import AssignMovingAverage as AssignMovingAverage
from mpiparallel.ops.one_hot_encoding import OneHot as OneHot
from mpiparallel.ops.optimizer_update import SGD as SGD
from mpiparallel.ops.optimizer_update import Adam as Adam
from mpiparallel.ops.optimizer_update import AdamWeightDecay as AdamWeightDecay
from mpiparallel.ops.optimizer_update import ApplyMomentum as ApplyMomentum
from mpiparallel.ops.optimizer_update import Assign as Assign
from mpiparallel.ops.optimizer_update import AssignAdd as AssignAdd
from mpiparallel.ops.optimizer_update import AssignSub as AssignSub
from mpiparallel.ops.pooling import AvgPool as AvgPool
from mpiparallel.ops.pooling import AvgPoolGrad as AvgPoolGrad
from mpiparallel.ops.pooling import MaxPool as MaxPool
from mpiparallel.ops.pooling import MaxPoolGrad as MaxPoolGrad
from mpiparallel.ops.ranking import Argmax as Argmax
from mpiparallel.ops.ranking import ArgMaxWithValue as ArgMaxWithValue
from mpiparallel.ops.ranking import Argmin as Argmin
from mpiparallel.ops.ranking import ArgMinWithValue as ArgMinWithValue
from mpiparallel.ops.ranking import TopK as TopK
from mpiparallel.ops.reduction import ReduceAll as ReduceAll
from mpiparallel.ops.reduction import ReduceAny as ReduceAny
from mpiparallel.ops.reduction import ReduceMax as ReduceMax
from mpiparallel.ops.reduction import ReduceMean as ReduceMean
from mpiparallel.ops.reduction import ReduceMin as ReduceMin
from mpiparallel.ops.reduction import ReduceProd as ReduceProd
from mpiparallel.ops.reduction import ReduceSum as ReduceSum
from mpiparallel.ops.reshaping import BroadcastTo as BroadcastTo
from mpiparallel.ops.reshaping import ExpandDims as ExpandDims
from mpiparallel.ops.reshaping import Flatten as Flatten
from mpiparallel.ops.reshaping import Reshape as Reshape
from mpiparallel.ops.reshaping import Squeeze as Squeeze
from mpiparallel.ops.reshaping import Transpose as Transpose
from mpiparallel.ops.sigmoid_cross_entropy import SigmoidCrossEntropyWithLogits as SigmoidCrossEntropyWithLogits
from mpiparallel.ops.slicing import Slice as Slice
from mpiparallel.ops.slicing import SliceGrad as SliceGrad
from mpiparallel.ops.slicing import StridedSlice as StridedSlice
from mpiparallel.ops.softmax_and_log import LogSoftmax as LogSoftmax
from mpiparallel.ops.softmax_and_log import LogSoftmaxGrad as LogSoftmaxGrad
from mpiparallel.ops.softmax_and_log import Softmax as Softmax
from mpiparallel.ops.softmax_and_log import SoftmaxGrad as SoftmaxGrad
from mpiparallel.ops.sum_of_squares import L2Loss as L2Loss
from mpiparallel.ops.tiling import Tile as Tile
from mpiparallel.parallel.collective import AllGather as AllGather
from mpiparallel.parallel.collective import AllReduce as AllReduce
from mpiparallel.parallel.collective import AlltoAll as AlltoAll
from mpiparallel.parallel.collective import Broadcast as Broadcast
from mpiparallel.parallel.collective import ReduceOp as ReduceOp
from mpiparallel.parallel.collective import ReduceScatter as ReduceScatter

__path__: list[str] = []
"""No folder: what MindSpore has in files inside ``operations`` is in ``mindspore_paths``."""

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
