"""MindSpore's methods of tensors that apply operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor_signs import TensorSigns, apply_named

if TYPE_CHECKING:
    from mpiparallel.graph.tensor import Tensor


class TensorMethods(TensorSigns):
    """What a tensor does by its operators. Dims may be counted from the right."""

    def set_dtype(self, dtype: Any) -> Tensor:
        """Return the tensor with elements of another type."""
        return self.astype(dtype)

    def astype(self, dtype: Any) -> Tensor:
        """Return the tensor with elements of another type."""
        return apply_named("Cast", self, np.dtype(dtype))

    to = astype

    def reshape(self, *shape: Any) -> Tensor:
        """Return the elements in the same order in another shape; one extent may be -1."""
        return apply_named("Reshape", self, _given(shape))

    view = reshape

    def flatten(self) -> Tensor:
        """Return the elements in the same order in one dim."""
        return self.reshape(-1)

    def expand_dims(self, axis: int) -> Tensor:
        """Return the tensor with a new dim of one element at ``axis``."""
        return apply_named("ExpandDims", self, axis)

    unsqueeze = expand_dims

    def squeeze(self, axis: Any = None) -> Tensor:
        """Return the tensor without its dims ``axis`` of one element, or all such dims when it is None."""
        return apply_named("Squeeze", self, options=(() if axis is None else axis,))

    def transpose(self, *axes: Any) -> Tensor:
        """Return the tensor with its dims permuted; reversed when none are given."""
        given = tuple(_given(axes)) or tuple(range(self.ndim))[::-1]
        return apply_named("Transpose", self, given)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Return the tensor with two dims exchanged."""
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(order)

    @property
    def T(self) -> Tensor:  # noqa: N802 - MindSpore's and NumPy's name
        """The tensor with its dims reversed."""
        return self.transpose()

    def broadcast_to(self, shape: Any) -> Tensor:
        """Return the tensor repeated along its dims of one element, and along new leading dims, to ``shape``."""
        return apply_named("BroadcastTo", self, options=(shape,))

    def sum(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return the sum over dims, all when none are given."""
        return self._reduced("ReduceSum", keep_dims, axis)

    def mean(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return the mean over dims, all when none are given."""
        return self._reduced("ReduceMean", keep_dims, axis)

    def max(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return the maximum over dims, all when none are given."""
        return self._reduced("ReduceMax", keep_dims, axis)

    def min(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return the minimum over dims, all when none are given."""
        return self._reduced("ReduceMin", keep_dims, axis)

    def prod(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return the product over dims, all when none are given."""
        return self._reduced("ReduceProd", keep_dims, axis)

    def all(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return whether all elements of a bool tensor over dims hold, all when none are given."""
        return self._reduced("ReduceAll", keep_dims, axis)

    def any(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return whether any element of a bool tensor over dims holds, all when none are given."""
        return self._reduced("ReduceAny", keep_dims, axis)

    def _reduced(self, name: str, keep_dims: bool, axis: Any) -> Tensor:
        return apply_named(name, self, () if axis is None else axis, options=(keep_dims,))

    def argmax(self, axis: int | None = None) -> Tensor:
        """Return the index (int64) of the first largest element along ``axis``, or in the flat tensor."""
        return self._place("Argmax", axis)

    def argmin(self, axis: int | None = None) -> Tensor:
        """Return the index (int64) of the first smallest element along ``axis``, or in the flat tensor."""
        return self._place("Argmin", axis)

    def _place(self, name: str, axis: int | None) -> Tensor:
        rows = self.flatten() if axis is None else self
        return apply_named(name, rows, options=(-1 if axis is None else axis, np.int64))

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the ``k`` largest elements of each row of the last dim, descending, and their indices."""
        values, indices = apply_named("TopK", self, k)
        return values, indices

    def cumsum(self, axis: int) -> Tensor:
        """Return the sum of the elements up to each along dim ``axis``."""
        return apply_named("CumSum", self, axis)

    def abs(self) -> Tensor:
        """Return the absolute value of each element."""
        return self._each("Abs")

    def exp(self) -> Tensor:
        """Return e to the power of each element."""
        return self._each("Exp")

    def log(self) -> Tensor:
        """Return the natural logarithm of each element."""
        return self._each("Log")

    def sqrt(self) -> Tensor:
        """Return the square root of each element."""
        return self._each("Sqrt")

    def square(self) -> Tensor:
        """Return each element times itself."""
        return self._each("Square")

    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent of each element."""
        return self._each("Tanh")

    def sigmoid(self) -> Tensor:
        """Return ``1 / (1 + exp(-x))`` of each element."""
        return self._each("Sigmoid")

    def _each(self, name: str) -> Tensor:
        return apply_named(name, self)

    def pow(self, power: Any) -> Tensor:
        """Return the tensor to a power, with broadcasting."""
        return apply_named("Pow", self, power)

    def clip(self, xmin: Any = None, xmax: Any = None) -> Tensor:
        """Return the tensor with elements below ``xmin`` raised to it, and those above ``xmax`` lowered.

        Either may be left out, not both: ConfigurationError.
        """
        if xmin is None and xmax is None:
            raise ConfigurationError("Tensor.clip: give xmin, xmax, or both")
        if xmin is None:
            return apply_named("Minimum", self, xmax)
        raised = apply_named("Maximum", self, xmin)
        return raised if xmax is None else apply_named("Minimum", raised, xmax)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """Return ``value`` where ``mask`` holds and the tensor elsewhere, with broadcasting."""
        return apply_named("Select", mask, value, self)


def _given(values: tuple[Any, ...]) -> Any:
    """Return what a method was given as one sequence, or as several arguments."""
    return values[0] if len(values) == 1 and not isinstance(values[0], int) else values
