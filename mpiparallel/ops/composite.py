"""MindSpore's module of functions made of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.ops.elementwise.clipping import clip_by_global_norm as clip_by_global_norm
from mpiparallel.ops.elementwise.clipping import clip_by_norm as clip_by_norm
from mpiparallel.ops.elementwise.clipping import clip_by_value as clip_by_value
from mpiparallel.ops.gradients.gradient import GradOperation as GradOperation
from mpiparallel.ops.gradients.hyper_map import HyperMap as HyperMap
from mpiparallel.ops.gradients.hyper_map import MultitypeFuncGraph as MultitypeFuncGraph

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
