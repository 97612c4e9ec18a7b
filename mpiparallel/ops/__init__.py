"""Operators: MindSpore's classes, in ``operations``, and functions, in ``functional``; both are here, too.

Its stub names them all, and is written from what is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.backend.tensor_spec import TensorSpec as TensorSpec
from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.graph.equation import Equation as Equation
from mpiparallel.ops import composite as composite
from mpiparallel.ops import door as door
from mpiparallel.ops import functional as functional
from mpiparallel.ops import operations as operations
from mpiparallel.ops import tensor_methods as tensor_methods
from mpiparallel.ops.composite import HyperMap as HyperMap
from mpiparallel.ops.composite import MultitypeFuncGraph as MultitypeFuncGraph
from mpiparallel.ops.primitive_names import Partial as Partial
from mpiparallel.ops.primitive_names import Primitive as Primitive
from mpiparallel.ops.primitive_names import constexpr as constexpr
from mpiparallel.ops.primitive_names import prim_attr_register as prim_attr_register

vars().update(door.public(operations))
vars().update(door.public(functional))

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
