"""MindSpore's module of functions of tensors: all that the modules below define.

Its stub names them, and is written from what is here.
"""

from __future__ import annotations

from functools import partial as partial
from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.ops import door, elementwise
from mpiparallel.ops.elementwise import clipping
from mpiparallel.ops.functions import (
    activations,
    bounds_and_comparisons,
    constants,
    conversions,
    extremes,
    losses,
    operators,
    products,
    rearrangements,
    reductions,
    regression_losses,
    rows,
    shapes,
    split_concat,
    statistics,
)
from mpiparallel.ops.functions import elementwise as composed_elementwise
from mpiparallel.ops.gradients import gradient

vars().update(
    door.functions_of(
        activations,
        bounds_and_comparisons,
        clipping,
        composed_elementwise,
        constants,
        conversions,
        elementwise,
        extremes,
        gradient,
        losses,
        operators,
        split_concat,
        products,
        rearrangements,
        reductions,
        regression_losses,
        rows,
        shapes,
        statistics,
    )
)

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
