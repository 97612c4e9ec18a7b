"""MindSpore's module of functions of tensors: all that the modules below define.

Its stub names them, and is written from what is here.
"""

from __future__ import annotations

from functools import partial as partial
from typing import TYPE_CHECKING

from mpiparallel.absent_names import getattr_of
from mpiparallel.ops import (
    activation_functions,
    clipping,
    constant_functions,
    conversion_functions,
    door,
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
