"""MindSpore's module of functions of tensors: all that the modules below define.

Its stub names them, and is written from what is here.
"""

from __future__ import annotations

from functools import partial as partial
from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.ops import door, elementwise
from mpiparallel.ops.elementwise import clipping
from mpiparallel.ops.functions import activations as activation_functions
from mpiparallel.ops.functions import bounds_and_comparisons as tensor_functions
from mpiparallel.ops.functions import constants as constant_functions
from mpiparallel.ops.functions import conversions as conversion_functions
from mpiparallel.ops.functions import elementwise as elementwise_functions
from mpiparallel.ops.functions import extremes as extreme_functions
from mpiparallel.ops.functions import losses as loss_functions
from mpiparallel.ops.functions import operators as operator_functions
from mpiparallel.ops.functions import pieces as piece_functions
from mpiparallel.ops.functions import products as product_functions
from mpiparallel.ops.functions import rearrangements as rearranging_functions
from mpiparallel.ops.functions import reductions as reduction_functions
from mpiparallel.ops.functions import regression_losses as regression_loss_functions
from mpiparallel.ops.functions import rows as row_functions
from mpiparallel.ops.functions import shapes as shape_functions
from mpiparallel.ops.functions import statistics as statistics_functions
from mpiparallel.ops.gradients import gradient

vars().update(
    door.functions_of(
        activation_functions,
        clipping,
        constant_functions,
        conversion_functions,
        elementwise,
        elementwise_functions,
        extreme_functions,
        gradient,
        loss_functions,
        operator_functions,
        piece_functions,
        product_functions,
        rearranging_functions,
        reduction_functions,
        regression_loss_functions,
        row_functions,
        shape_functions,
        statistics_functions,
        tensor_functions,
    )
)

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
