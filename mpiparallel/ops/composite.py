"""MindSpore's module of functions made of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.absent_names import getattr_of
from mpiparallel.ops.clipping import clip_by_global_norm as clip_by_global_norm
from mpiparallel.ops.clipping import clip_by_norm as clip_by_norm
from mpiparallel.ops.clipping import clip_by_value as clip_by_value
from mpiparallel.ops.gradient import GradOperation as GradOperation
from mpiparallel.ops.hyper_map import HyperMap as HyperMap
from mpiparallel.ops.hyper_map import MultitypeFuncGraph as MultitypeFuncGraph

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
