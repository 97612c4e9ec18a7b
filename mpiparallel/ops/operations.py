"""MindSpore's module of operator classes: all that the modules below enter in the registry.

Its stub names them, and is written from what is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.absent_names import getattr_of
from mpiparallel.graph import registry
from mpiparallel.ops import (  # noqa: F401 - they enter their operators
    adaptive_pooling,
    addition,
    assignment,
    batch_norm_steps,
    batch_normalization,
    batch_statistics,
    choice,
    constant,
    cross_entropy_loss,
    cumulation,
    custom,
    dropout_mask,
    edge_padding,
    elementwise,
    float_status,
    gathering,
    identity,
    layer_normalization,
    matrix_product,
    movement,
    moving_average,
    one_hot_encoding,
    optimizer_update,
    pooling,
    power,
    ranking,
    reduction,
    reshaping,
    sigmoid_cross_entropy,
    slicing,
    softmax_and_log,
    sum_of_squares,
    tiling,
)
from mpiparallel.ops.batch_normalization import BatchNorm as BatchNorm
from mpiparallel.ops.constant import Ones as Ones
from mpiparallel.ops.constant import Range as Range
from mpiparallel.ops.constant import Zeros as Zeros
from mpiparallel.ops.convolution import convolution  # noqa: F401
from mpiparallel.ops.gradient import GradOperation as GradOperation
from mpiparallel.ops.inspection import DType as DType
from mpiparallel.ops.inspection import Rank as Rank
from mpiparallel.ops.inspection import Shape as Shape
from mpiparallel.ops.inspection import Size as Size
from mpiparallel.parallel.collective import ReduceOp as ReduceOp

__path__: list[str] = []
"""No folder: what MindSpore has in files inside ``operations`` is in ``mindspore_paths``."""

vars().update(registry.OPERATORS)

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
