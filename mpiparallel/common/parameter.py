"""MindSpore's door to parameters."""

from __future__ import annotations

from mpiparallel.graph.parameter import Parameter as Parameter
from mpiparallel.nn.cell import ParameterTuple as ParameterTuple

__all__ = ["Parameter", "ParameterTuple"]
