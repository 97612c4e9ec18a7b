"""Tensors with all that operators do for them: their operators and methods are attached when this is imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mpiparallel.graph.own_operators import Add
from mpiparallel.graph.parameter import Parameter as Parameter
from mpiparallel.graph.tensor import Tensor as Tensor
from mpiparallel.graph.tensor_operations import attached
from mpiparallel.ops.application import applied
from mpiparallel.ops.shapes.constant import Fill
from mpiparallel.ops.tensor_methods.arguments import given
from mpiparallel.ops.tensor_methods.casts import TensorCasts as TensorCasts
from mpiparallel.ops.tensor_methods.elements import TensorElements as TensorElements
from mpiparallel.ops.tensor_methods.operators import TensorOperators as TensorOperators
from mpiparallel.ops.tensor_methods.reductions import TensorReductions as TensorReductions
from mpiparallel.ops.tensor_methods.shapes import TensorShapes as TensorShapes


@attached
class TensorMethods(Tensor):
    """New tensors like one, and what goes over all of its elements."""

    def new_zeros(self, *size: Any, dtype: Any = None) -> Tensor:
        """Return zeros of a shape, of the type of the tensor where no dtype is given."""
        return self._new(given(size), dtype, 0)

    def new_ones(self, *size: Any, dtype: Any = None) -> Tensor:
        """Return ones of a shape, of the type of the tensor where no dtype is given."""
        return self._new(given(size), dtype, 1)

    def new_full(self, size: Any, fill_value: Any, dtype: Any = None) -> Tensor:
        """Return a tensor of a shape with ``fill_value`` everywhere, of the tensor's type where no dtype is given."""
        return self._new(given((size,)), dtype, fill_value)

    def _new(self, shape: Any, dtype: Any, value: Any) -> Tensor:
        return applied(Fill(), np.dtype(self.dtype if dtype is None else dtype), tuple(shape), value)

    def fill(self, value: Any) -> Tensor:
        """Return a tensor of this shape and type with ``value`` everywhere."""
        return self._new(self.shape, None, value)

    def clone(self) -> Tensor:
        """Return a tensor of the same values, whose gradient is that of this one."""
        return self.copy() if self.value is None else applied(Add(), self, 0)

    def allclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08) -> bool:
        """Return whether all elements differ by at most ``atol + rtol * abs(other)``."""
        return bool(self.isclose(other, rtol, atol).all())

    def __iter__(self) -> Iterator[Tensor]:
        return (self[position] for position in range(len(self)))
