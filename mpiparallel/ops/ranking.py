"""Where the largest and smallest elements of each row are. Of equal ones the first counts, as in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.ops.input_checks import normal_axis
from mpiparallel.ops.one_hot_encoding import OneHot
from mpiparallel.ops.reduction import ReduceSum

Tensors = Sequence[Tensor]

_FEW = 4
"""How many times longer than what is chosen of it a row must be, for choosing to be faster than sorting it."""


class Ranking(Operator):
    """An operator along dim ``axis``, which no strategy may cut; ``keep_dims`` keeps it with one element."""

    axis: int = -1
    keep_dims: bool = False
    function: ClassVar[str] = "argmax"

    def reduced(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape with one result for each row; raise ShapeError where rows have no element."""
        axis = normal_axis(self.axis, len(shape))
        if not shape[axis]:
            raise ShapeError(f"dim {axis} of {shape} has no element")
        return (*shape[:axis], *((1,) if self.keep_dims else ()), *shape[axis + 1 :])

    def along(self, rank: int, outputs: int) -> Equation:
        """Return the rule for an input with ``rank`` dims."""
        axis = normal_axis(self.axis, rank)
        labels: Labels = tuple(None if dim == axis else f"d{dim}" for dim in range(rank))
        kept = labels if self.keep_dims else (*labels[:axis], *labels[axis + 1 :])
        return Equation((labels,), (kept,) * outputs, batch=next((one for one in labels if one), None))

    def places(self, xp: Any, x: Array) -> Array:
        """Return the index of the result in each row, with dim ``axis`` left out."""
        return getattr(xp, self.function)(x, axis=self.axis)


@register
class Argmax(Ranking):
    """The index of the largest element along dim ``axis``, int32 unless ``output_type`` is int64.

    >>> Argmax()(np.array([[1.0, 3.0, 3.0]])).asnumpy().tolist()
    [1]
    """

    def __init__(self, axis: int = -1, output_type: Any = np.int32) -> None:
        self.axis = axis
        self.output_type = np.dtype(output_type)
        if self.output_type.name not in ("int32", "int64"):
            raise ConfigurationError(f"{self.name}: output_type {output_type!r} must be int32 or int64")

    def __call__(self, input_x: Any) -> Any:
        return super().__call__(input_x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(self.reduced(inputs[0].shape), self.output_type),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.along(len(inputs[0].shape), 1)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, x = runtime.array_module, inputs[0]
        axis = normal_axis(self.axis, x.ndim)
        target = outputs[0].reshape((*x.shape[:axis], *x.shape[axis + 1 :]))

        def run() -> None:
            xp.copyto(target, self.places(xp, x), casting="same_kind")

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (None,)


@register
class Argmin(Argmax):
    """The index of the smallest element along dim ``axis``, int32 unless ``output_type`` is int64."""

    function = "argmin"


@register
class ArgMaxWithValue(Ranking):
    """The index (int32) of the largest element along dim ``axis``, and that element, which has all of the gradient.

    >>> index, value = ArgMaxWithValue(1)(np.array([[1.0, 3.0]]))
    >>> index.asnumpy().tolist(), value.asnumpy().tolist()
    ([1], [3.0])
    """

    def __init__(self, axis: int = 0, keep_dims: bool = False) -> None:
        self.axis = axis
        self.keep_dims = keep_dims

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = self.reduced(inputs[0].shape)
        return TensorSpec(shape, np.dtype(np.int32)), TensorSpec(shape, inputs[0].dtype)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.along(len(inputs[0].shape), 2)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, x = runtime.array_module, inputs[0]
        axis = normal_axis(self.axis, x.ndim)
        kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        index, value = (one.reshape(kept) for one in outputs)

        def run() -> None:
            places = self.places(xp, x).reshape(kept)
            xp.copyto(index, places, casting="same_kind")
            xp.copyto(value, xp.take_along_axis(x, places, axis))

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, index = inputs[0], outputs[0]
        axis = normal_axis(self.axis, x.ndim)
        kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        flat = index.reshape((*x.shape[:axis], *x.shape[axis + 1 :])) if self.keep_dims else index
        on, off = np.ones((), x.dtype), np.zeros((), x.dtype)
        return (OneHot(axis)(flat, x.shape[axis], on, off) * gradients[1].reshape(kept),)


@register
class ArgMinWithValue(ArgMaxWithValue):
    """The index (int32) of the smallest element along dim ``axis``, and that element, which has all of the gradient."""

    function = "argmin"


@register
class TopK(Ranking):
    """The ``k`` largest elements of each row of the last dim, descending, and their indices (int32).

    Raises ShapeError when a row has fewer. ``sorted`` False gives the same. The last dim is not cut.

    >>> values, indices = TopK()(np.array([1.0, 3.0, 2.0, 3.0]), 3)
    >>> values.asnumpy().tolist(), indices.asnumpy().tolist()
    ([3.0, 3.0, 2.0], [1, 3, 2])
    """

    keep_dims = True
    count: int = 1

    def __init__(self, sorted: bool = True) -> None:
        self.sorted = sorted

    def __call__(self, input_x: Any, k: Any) -> Any:
        return Operator.__call__(self.configured(count=int(k)), input_x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = inputs[0].shape
        row = shape[normal_axis(-1, len(shape))]
        if not 1 <= self.count <= row:
            raise ShapeError(f"k {self.count} must be 1 to {row}, the elements of a row of {shape}")
        found = (*shape[:-1], self.count)
        return TensorSpec(found, inputs[0].dtype), TensorSpec(found, np.dtype(np.int32))

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.along(len(inputs[0].shape), 2)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, x, (values, indices) = runtime.array_module, inputs[0], outputs
        find = _chosen if xp is np and self.count * _FEW <= x.shape[-1] else _sorted

        def run() -> None:
            order = find(xp, x, self.count)
            xp.copyto(indices, order, casting="same_kind")
            xp.copyto(values, xp.take_along_axis(x, order, -1))

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x = inputs[0]
        on, off = np.ones((), x.dtype), np.zeros((), x.dtype)
        chosen = OneHot()(outputs[1], x.shape[-1], on, off)
        return (ReduceSum()(chosen * gradients[0].reshape((*gradients[0].shape, 1)), -2),)


def _sorted(xp: Any, x: Array, count: int) -> Array:
    """Return the indices of the ``count`` largest elements of each row, descending, the first of equal ones first."""
    # Ascending and stable on the reversed row, read backwards.
    return x.shape[-1] - 1 - xp.argsort(x[..., ::-1], axis=-1, kind="stable")[..., : -count - 1 : -1]


def _chosen(xp: Any, x: Array, count: int) -> Array:
    """Return what ``_sorted`` does, of rows that are long for ``count``, by sorting what is chosen only."""
    least = xp.partition(x, -count, axis=-1)[..., -count, None]
    if (least != least).any():
        return _sorted(xp, x, count)
    above, equal = ~(x <= least), x == least
    missing = count - above.sum(-1, keepdims=True)
    above |= equal & (xp.cumsum(equal, axis=-1, dtype=np.int32) <= missing)
    places = above.nonzero()[-1].reshape((*x.shape[:-1], count))
    return xp.take_along_axis(places, _sorted(xp, xp.take_along_axis(x, places, -1), count), -1)
