"""MindSpore's door to tensors, parameters, dtypes and initializers; nothing lives here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.common import dtype as dtype
from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.context.seeds import set_seed as set_seed
from mpiparallel.graph.parameter import Parameter as Parameter
from mpiparallel.nn.cell import ParameterTuple as ParameterTuple
from mpiparallel.ops.tensor_methods import Tensor as Tensor

__all__ = ["Parameter", "ParameterTuple", "Tensor", "dtype", "set_seed"]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__, ("api", "initializer", "parameter", "seed", "tensor"))
