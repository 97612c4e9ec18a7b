"""MindSpore's door to the initializers of ``mpiparallel.nn.initializer``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.nn.initializer import Constant as Constant
from mpiparallel.nn.initializer import Dirac as Dirac
from mpiparallel.nn.initializer import HeNormal as HeNormal
from mpiparallel.nn.initializer import HeUniform as HeUniform
from mpiparallel.nn.initializer import Identity as Identity
from mpiparallel.nn.initializer import Initializer as Initializer
from mpiparallel.nn.initializer import Normal as Normal
from mpiparallel.nn.initializer import One as One
from mpiparallel.nn.initializer import Orthogonal as Orthogonal
from mpiparallel.nn.initializer import Sparse as Sparse
from mpiparallel.nn.initializer import TruncatedNormal as TruncatedNormal
from mpiparallel.nn.initializer import Uniform as Uniform
from mpiparallel.nn.initializer import VarianceScaling as VarianceScaling
from mpiparallel.nn.initializer import XavierNormal as XavierNormal
from mpiparallel.nn.initializer import XavierUniform as XavierUniform
from mpiparallel.nn.initializer import Zero as Zero
from mpiparallel.nn.initializer import initializer as initializer

__all__ = [
    "Constant",
    "Dirac",
    "HeNormal",
    "HeUniform",
    "Identity",
    "Initializer",
    "Normal",
    "One",
    "Orthogonal",
    "Sparse",
    "TruncatedNormal",
    "Uniform",
    "VarianceScaling",
    "XavierNormal",
    "XavierUniform",
    "Zero",
    "initializer",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
