"""MindSpore's door to the initializers of ``mpiparallel.nn.initializer``."""

from __future__ import annotations

from mpiparallel.nn.initializer import Constant as Constant
from mpiparallel.nn.initializer import HeNormal as HeNormal
from mpiparallel.nn.initializer import HeUniform as HeUniform
from mpiparallel.nn.initializer import Initializer as Initializer
from mpiparallel.nn.initializer import Normal as Normal
from mpiparallel.nn.initializer import One as One
from mpiparallel.nn.initializer import TruncatedNormal as TruncatedNormal
from mpiparallel.nn.initializer import Uniform as Uniform
from mpiparallel.nn.initializer import XavierNormal as XavierNormal
from mpiparallel.nn.initializer import XavierUniform as XavierUniform
from mpiparallel.nn.initializer import Zero as Zero
from mpiparallel.nn.initializer import initializer as initializer

__all__ = [
    "Constant",
    "HeNormal",
    "HeUniform",
    "Initializer",
    "Normal",
    "One",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "Zero",
    "initializer",
]
