"""Where the largest and smallest elements of each row are. Of equal ones the first counts, as in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.dtype import is_floating
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import normal_axis
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.indexing.gathering import GatherLastGrad
from mpiparallel.ops.indexing.one_hot_encoding import OneHot
from mpiparallel.ops.reductions.reduction import DimReduction, ReduceMax, ReduceMin, ReduceSum
from mpiparallel.ops.shapes.reshaping import Transpose

Tensors = Sequence[Tensor]

_FEW = 4
"""How many times longer than what is chosen of it a row must be, for choosing to be faster than sorting it."""


class Ranking(Operator):
    """An operator along dim ``axis``; ``keep_dims`` keeps it with one element."""

    axis: int = -1
    keep_dims: bool = False

    def reduced(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape with one result for each row; raise ShapeError where rows have no element."""
        axis = normal_axis(self.axis, len(shape))
        if not shape[axis]:
            raise ShapeError(f"dim {axis} of {shape} has no element")
        return (*shape[:axis], *((1,) if self.keep_dims else ()), *shape[axis + 1 :])

    def labels(self, rank: int) -> tuple[Labels, Labels]:
        """Return the labels of an input with ``rank`` dims, and of what has one result for each row."""
        axis = normal_axis(self.axis, rank)
        labels: Labels = tuple(f"d{dim}" for dim in range(rank))
        return labels, (*labels[:axis], *((None,) if self.keep_dims else ()), *labels[axis + 1 :])


class FirstExtreme:
    """What an extreme element of each row has beside its value: all of the gradient goes to the first of equal ones."""

    def gradient(self: Any, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, rank = inputs[0], inputs[0].ndim
        (axis,) = self.dims(rank)
        search = Argmin if self.reduction == "min" else Argmax
        places = Operator.__call__(search(axis).configured(keep_dims=self.keep_dims), x, outputs[0])
        others = tuple(dim for dim in range(rank) if dim != axis)
        rows = tuple(x.shape[dim] for dim in others)
        spread = GatherLastGrad().configured(in_range=True)(
            gradients[0].reshape(rows), places.reshape(rows), Transpose()(x, (*others, axis))
        )
        return (Transpose()(spread, tuple(int(dim) for dim in np.argsort((*others, axis)))),)


class RowMaximum(FirstExtreme, ReduceMax):
    """The largest element along one dim; the first of equal ones has all of the gradient."""


class RowMinimum(FirstExtreme, ReduceMin):
    """The smallest element along one dim; the first of equal ones has all of the gradient."""


@register
class Argmax(Ranking):
    """The index of the largest element along dim ``axis``, int32 unless ``output_type`` is int64.

    It is recorded as two steps, so that dim ``axis`` may be cut. The first gives the largest elements of the whole
    rows. The second gives the first place of each that a rank holds; the least of these counts. What is no number is
    the largest, as in NumPy.

    Parameters
    ----------
    axis : int
        The dim, negative ones from the right.
    output_type : dtype
        int32 or int64.

    Raises
    ------
    ConfigurationError
        For another ``output_type``.

    Examples
    --------
    >>> Argmax()(np.array([[1.0, 3.0, 3.0]])).asnumpy().tolist()
    [1]
    """

    function: ClassVar[str] = "argmax"
    extreme: ClassVar[type[DimReduction]] = RowMaximum
    first: int = 0
    extent: int = 0

    def __init__(self, axis: int = -1, output_type: Any = np.int32) -> None:
        self.axis = axis
        self.output_type = np.dtype(output_type)
        if self.output_type.name not in ("int32", "int64"):
            raise ConfigurationError(f"{self.name}: output_type {output_type!r} must be int32 or int64")

    def __call__(self, input_x: Any) -> Any:
        return self.found(input_x)[0]

    def found(self, x: Any) -> tuple[Tensor, Tensor]:
        """Return the places of the extreme elements of the rows, and these elements."""
        x = x if isinstance(x, Tensor) else Tensor(x)
        self.reduced(x.shape)
        moved = self.out_strategy or ()
        extreme = self.extreme(self.keep_dims).configured(strategy=self.strategy, out_strategy=moved[1:] or None)
        value = extreme(x, self.axis)
        return Operator.__call__(self.configured(out_strategy=moved[:1] or None), x, value), value

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(self.reduced(inputs[0].shape), self.output_type),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels, kept = self.labels(len(inputs[0].shape))
        return Equation((labels, kept), (kept,), reduction="min", batch=labels[0], strategy_inputs=(labels,))

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Argmax:
        axis, part = normal_axis(self.axis, len(inputs[0].global_shape)), inputs[0]
        return self.configured(axis=axis, first=part.box.start[axis], extent=part.global_shape[axis])

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (x, value) = runtime.array_module, inputs
        kept = (*x.shape[: self.axis], 1, *x.shape[self.axis + 1 :])
        value, target = value.reshape(kept), outputs[0].reshape(kept)
        nowhere = np.iinfo(self.output_type).max

        def of_whole_rows() -> None:
            xp.copyto(target, getattr(xp, self.function)(x, axis=self.axis).reshape(kept), casting="same_kind")

        def of_parts() -> None:
            equal = x == value
            if is_floating(x.dtype):
                equal |= xp.isnan(x) & xp.isnan(value)
            places = equal.argmax(axis=self.axis).reshape(kept)
            hit = xp.take_along_axis(equal, places, self.axis)
            xp.copyto(target, xp.where(hit, places + self.first, nowhere), casting="same_kind")

        if x.shape[self.axis] == self.extent:
            return of_whole_rows
        return of_parts if x.shape[self.axis] else partial(target.fill, nowhere)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return None, None


@register
class Argmin(Argmax):
    """The index of the smallest element along dim ``axis``, int32 unless ``output_type`` is int64.

    Parameters
    ----------
    axis, output_type
        As of Argmax.

    Examples
    --------
    >>> Argmin()(np.array([[3.0, 1.0, 1.0]])).asnumpy().tolist()
    [1]
    """

    function = "argmin"
    extreme = RowMinimum


@register
class ArgMaxWithValue(Argmax):
    """The index (int32) of the largest element along dim ``axis``, and that element, which has all of the gradient.

    Parameters
    ----------
    axis : int
        The dim, negative ones from the right.
    keep_dims : bool
        Whether it stays, with an extent of 1.

    Examples
    --------
    >>> index, value = ArgMaxWithValue(1)(np.array([[1.0, 3.0]]))
    >>> index.asnumpy().tolist(), value.asnumpy().tolist()
    ([1], [3.0])
    """

    def __init__(self, axis: int = 0, keep_dims: bool = False) -> None:
        super().__init__(axis)
        self.keep_dims = keep_dims

    def __call__(self, x: Any) -> Any:
        return self.found(x)


@register
class ArgMinWithValue(ArgMaxWithValue):
    """The index (int32) of the smallest element along dim ``axis``, and that element, which has all of the gradient.

    Parameters
    ----------
    axis, keep_dims
        As of ArgMaxWithValue.

    Examples
    --------
    >>> [one.asnumpy().tolist() for one in ArgMinWithValue(1)(np.array([[3.0, 1.0]]))]
    [[1], [1.0]]
    """

    function = "argmin"
    extreme = RowMinimum


@register
class TopK(Ranking):
    """The ``k`` largest elements of each row of the last dim, descending, and their indices (int32).

    The last dim is not cut.

    Parameters
    ----------
    sorted : bool
        Whether they must be in order, which they are.

    Raises
    ------
    ShapeError
        When a row has fewer.

    Examples
    --------
    >>> values, indices = TopK()(np.array([1.0, 3.0, 2.0, 3.0]), 3)
    >>> values.asnumpy().tolist(), indices.asnumpy().tolist()
    ([3.0, 3.0, 2.0], [1, 3, 2])
    """

    keep_dims = True
    count: int = 1

    def __init__(self, sorted: bool = True) -> None:
        no_effect(self.name, "sorted", sorted, "the largest elements come in descending order always", default=True)

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
        labels = (*self.labels(len(inputs[0].shape))[0][:-1], None)
        return Equation((labels,), (labels, labels), batch=labels[0])

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
