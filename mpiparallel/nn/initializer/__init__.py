"""First values of parameters: the same numbers whatever the cut, each rank makes only its own slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.nn.initializer.constant import Constant as Constant
from mpiparallel.nn.initializer.constant import One as One
from mpiparallel.nn.initializer.constant import Zero as Zero
from mpiparallel.nn.initializer.distributions import HeNormal as HeNormal
from mpiparallel.nn.initializer.distributions import HeUniform as HeUniform
from mpiparallel.nn.initializer.distributions import Normal as Normal
from mpiparallel.nn.initializer.distributions import TruncatedNormal as TruncatedNormal
from mpiparallel.nn.initializer.distributions import Uniform as Uniform
from mpiparallel.nn.initializer.distributions import VarianceScaling as VarianceScaling
from mpiparallel.nn.initializer.distributions import XavierNormal as XavierNormal
from mpiparallel.nn.initializer.distributions import XavierUniform as XavierUniform
from mpiparallel.nn.initializer.making import initializer as initializer
from mpiparallel.nn.initializer.patterns import Dirac as Dirac
from mpiparallel.nn.initializer.patterns import Identity as Identity
from mpiparallel.nn.initializer.patterns import Orthogonal as Orthogonal
from mpiparallel.nn.initializer.patterns import Sparse as Sparse
from mpiparallel.nn.initializer.rule import Initializer as Initializer

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
