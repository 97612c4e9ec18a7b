"""MindSpore's door to parameters."""

from __future__ import annotations

from mpiparallel.nn.cell import ParameterTuple as ParameterTuple
from mpiparallel.ops.tensor_methods import Parameter as Parameter

__all__ = ["Parameter", "ParameterTuple"]
