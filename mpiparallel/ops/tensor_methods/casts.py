"""The types of a tensor's elements: what they are, and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.dtype import is_floating
from mpiparallel.graph.own_operators import Cast
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_operations import attached
from mpiparallel.ops.application import applied


@attached
class TensorCasts(Tensor):
    """The same numbers in elements of another type."""

    def set_dtype(self, dtype: Any) -> Tensor:
        """Return the tensor with elements of another type."""
        return self.astype(dtype)

    def astype(self, dtype: Any, copy: Any = True) -> Tensor:
        """Return the tensor with elements of another type; ``copy`` changes nothing, as a remark says of False."""
        no_effect("Tensor.astype", "copy", copy, "a tensor of another type has its own memory", default=True)
        return applied(Cast(), self, np.dtype(dtype))

    def to(self, dtype: Any) -> Tensor:
        """Return the tensor with elements of another type."""
        return self.astype(dtype)

    def type_as(self, other: Any) -> Tensor:
        """Return the tensor with elements of the type of another."""
        return self.astype(other.dtype)

    def half(self) -> Tensor:
        """Return the tensor as float16."""
        return self.astype(np.float16)

    def float(self) -> Tensor:
        """Return the tensor as float32."""
        return self.astype(np.float32)

    def double(self) -> Tensor:
        """Return the tensor as float64."""
        return self.astype(np.float64)

    def byte(self) -> Tensor:
        """Return the tensor as uint8."""
        return self.astype(np.uint8)

    def short(self) -> Tensor:
        """Return the tensor as int16."""
        return self.astype(np.int16)

    def int(self) -> Tensor:
        """Return the tensor as int32."""
        return self.astype(np.int32)

    def long(self) -> Tensor:
        """Return the tensor as int64."""
        return self.astype(np.int64)

    def bool(self) -> Tensor:
        """Return the tensor as bool."""
        return self.astype(np.bool_)

    def is_floating_point(self) -> Any:
        """Return whether the elements are floats."""
        return is_floating(self.dtype)
