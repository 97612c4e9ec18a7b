"""MindSpore's methods of tensors that apply operators."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from mpiparallel.graph.tensor_arguments import given
from mpiparallel.graph.tensor_reductions import TensorReductions
from mpiparallel.graph.tensor_signs import apply_named

if TYPE_CHECKING:
    from mpiparallel.graph.tensor import Tensor


class TensorMethods(TensorReductions):
    """What a tensor does by its operators, and what is known of it by its shape and its type."""

    def dim(self) -> int:
        """Return the number of dims."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements of the whole tensor."""
        return prod(self.shape)

    nelement = numel

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements of the whole tensor."""
        return self.numel() * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next along each dim, were all in C order."""
        return tuple(self.itemsize * prod(self.shape[dim + 1 :]) for dim in range(self.ndim))

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
        return apply_named("Fill", np.dtype(self.dtype if dtype is None else dtype), tuple(shape), value)

    def fill(self, value: Any) -> Tensor:
        """Return a tensor of this shape and type with ``value`` everywhere."""
        return self._new(self.shape, None, value)
