"""MindSpore's module of operator classes: all that the modules below enter in the registry.

Its stub names them, and is written from what is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.graph.attention import blocked_attention  # noqa: F401 - they enter their operators
from mpiparallel.graph.operator import OPERATORS as _OPERATORS
from mpiparallel.ops import custom, elementwise, matrix_product  # noqa: F401 - they enter their operators
from mpiparallel.ops.elementwise import power, selection  # noqa: F401 - they enter their operators
from mpiparallel.ops.gradients.gradient import GradOperation as GradOperation
from mpiparallel.ops.images import adaptive_pooling, edge_padding, pooling  # noqa: F401 - they enter their operators
from mpiparallel.ops.images.convolution import convolution  # noqa: F401
from mpiparallel.ops.indexing import gathering, one_hot_encoding, slicing  # noqa: F401 - they enter their operators
from mpiparallel.ops.losses import cross_entropy_loss, sigmoid_cross_entropy, softmax_and_log  # noqa: F401 - they enter their operators
from mpiparallel.ops.normalization import (  # noqa: F401 - they enter their operators
    batch_norm_steps,
    batch_normalization,
    batch_statistics,
    layer_normalization,
    moving_average,
)
from mpiparallel.ops.normalization.batch_normalization import BatchNorm as BatchNorm
from mpiparallel.ops.randomness import dropout_mask  # noqa: F401 - they enter their operators
from mpiparallel.ops.reductions import addition, cumulation, float_status, ranking, reduction, sum_of_squares  # noqa: F401 - they enter their operators
from mpiparallel.ops.shapes import constant, identity, reshaping, split_concat, tiling  # noqa: F401 - they enter their operators
from mpiparallel.ops.shapes.constant import Ones as Ones
from mpiparallel.ops.shapes.constant import Range as Range
from mpiparallel.ops.shapes.constant import Zeros as Zeros
from mpiparallel.ops.shapes.inspection import DType as DType
from mpiparallel.ops.shapes.inspection import Rank as Rank
from mpiparallel.ops.shapes.inspection import Shape as Shape
from mpiparallel.ops.shapes.inspection import Size as Size
from mpiparallel.ops.variables import assignment, optimizer_update  # noqa: F401 - they enter their operators
from mpiparallel.parallel.collective_operators import ReduceOp as ReduceOp

__path__: list[str] = []
"""No folder: what MindSpore has in files inside ``operations`` is in ``mindspore_paths``."""

vars().update(_OPERATORS)

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
