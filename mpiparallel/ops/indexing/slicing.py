"""Parts of a tensor by indices and slices, and the place of a part in zeros."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_integer
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]
IndexItem = int | slice | None


class Slicing(Operator):
    """An operator at Python indices of a tensor: integers, slices, None for a new dim, and ``...``.

    Only dims that are taken whole may be cut.
    """

    index: tuple[Any, ...] = ()

    def items(self, shape: tuple[int, ...]) -> list[IndexItem]:
        """Return the index with every dim of a tensor of ``shape`` in it; ``slice(None)`` where a dim is whole."""
        given = [item for item in self.index if item is not Ellipsis and item is not None]
        if len(given) > len(shape):
            raise ShapeError(f"{len(given)} indices for the {len(shape)} dims of {shape}")
        if sum(item is Ellipsis for item in self.index) > 1:
            raise ShapeError(f"index {self.index!r} has ... more than once")
        rest = [slice(None)] * (len(shape) - len(given))
        places = [place for place, item in enumerate(self.index) if item is Ellipsis]
        at = places[0] if places else len(self.index)
        items: list[IndexItem] = [*self.index[:at], *rest, *self.index[at + len(places) :]]
        extents = iter(shape)
        return [item if item is None else _normal(item, next(extents), shape) for item in items]

    def labels(self, shape: tuple[int, ...]) -> tuple[Labels, Labels]:
        """Return the labels of a tensor of ``shape`` and of its part."""
        whole: list[str | None] = []
        part: list[str | None] = []
        for item in self.items(shape):
            label = f"d{len(whole)}" if item == slice(None) else None
            if item is not None:
                whole.append(label)
            if not isinstance(item, int):
                part.append(label)
        return tuple(whole), tuple(part)

    def view(self, array: Array) -> Array:
        return array[self.index if any(item is Ellipsis for item in self.index) else (*self.index, ...)]


def _normal(item: int | slice, extent: int, shape: tuple[int, ...]) -> int | slice:
    """Return an item of an index for a dim of ``extent`` elements, a whole dim as ``slice(None)``; check integers."""
    if isinstance(item, slice):
        return slice(None) if item.indices(extent) == (0, extent, 1) else item
    if not -extent <= item < extent:
        raise ShapeError(f"index {item} is out of range for a dim of {extent} elements of {shape}")
    return item


def _checked_item(item: Any, index: Any) -> Any:
    """Return an item of a user's index as this package knows it."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        return as_integer(item)
    raise ShapeError(
        f"index {index!r} must be made of integers, slices, None and ...; use ops.gather for tensors of indices, and "
        "ops.select or ops.masked_fill for masks"
    )


class Taking(Slicing):
    """An operator that shows the part of a tensor at an index."""

    is_view = True

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape: list[int] = []
        extents = iter(inputs[0].shape)
        for item in self.items(inputs[0].shape):
            extent = 1 if item is None else next(extents)
            if not isinstance(item, int):
                shape.append(1 if item is None else len(range(*item.indices(extent))))
        return (TensorSpec(tuple(shape), inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels, kept = self.labels(inputs[0].shape)
        return Equation((labels,), (kept,), batch=next((one for one in labels if one), None))

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (SliceGrad(self.index)(gradients[0], inputs[0]),)


@register
class StridedSlice(Taking):
    """A part of a tensor; only dims that are taken whole may be cut.

    It is given a Python index, or MindSpore's ``begin``, ``end`` and ``strides``, one of each a dim.

    Parameters
    ----------
    begin_mask, end_mask : int
        Bit ``d`` takes all of dim ``d`` from there, or up to there.
    ellipsis_mask : int
        Its bit stands for all dims in the middle.
    new_axis_mask : int
        Its bits make a dim of one element.
    shrink_axis_mask : int
        Its bits take element ``begin``, without the dim.

    Raises
    ------
    ShapeError
        When the index does not fit the tensor.

    Examples
    --------
    >>> StridedSlice()(np.arange(6).reshape(2, 3), (0, 1), (2, 3), (1, 1)).asnumpy().tolist()
    [[1, 2], [4, 5]]
    >>> StridedSlice()(np.arange(6).reshape(2, 3), (None, 1)).asnumpy().tolist()
    [[3, 4, 5]]
    """

    def __init__(
        self,
        begin_mask: int = 0,
        end_mask: int = 0,
        ellipsis_mask: int = 0,
        new_axis_mask: int = 0,
        shrink_axis_mask: int = 0,
    ) -> None:
        self.masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)

    def __call__(self, x: Any, begin: Any, end: Any = None, strides: Any = None) -> Any:
        index = tuple(begin) if isinstance(begin, tuple) or end is not None else (begin,)
        if end is not None:
            steps = (1,) * len(index) if strides is None else tuple(strides)
            if not len(index) == len(end) == len(steps):
                raise ShapeError(f"{self.name}: begin {begin}, end {end} and strides {strides} must be equally long")
            index = tuple(map(self._masked, range(len(index)), index, end, steps))
        return Operator.__call__(self.configured(index=tuple(_checked_item(item, index) for item in index)), x)

    def _masked(self, dim: int, begin: int, end: int, step: int) -> Any:
        from_start, to_end, ellipsis, new_axis, shrink = (mask >> dim & 1 for mask in self.masks)
        if ellipsis:
            return Ellipsis
        if new_axis:
            return None
        return begin if shrink else slice(None if from_start else begin, None if to_end else end, step)


@register
class Slice(Taking):
    """``size[d]`` elements of each dim ``d`` from ``begin[d]`` on, all that are left where the size is -1.

    Raises
    ------
    ShapeError
        Where the part does not lie in the tensor.

    Examples
    --------
    >>> Slice()(np.arange(6).reshape(2, 3), (0, 1), (-1, 2)).asnumpy().tolist()
    [[1, 2], [4, 5]]
    """

    def __call__(self, input_x: Any, begin: Any, size: Any) -> Any:
        shape = input_x.shape if isinstance(input_x, Tensor) else np.shape(input_x)
        if not len(begin) == len(size) == len(shape):
            raise ShapeError(f"{self.name}: begin {begin} and size {size} must have one entry for each dim of {shape}")
        end = tuple(
            extent if count == -1 else start + count for start, count, extent in zip(begin, size, shape, strict=True)
        )
        if any(not 0 <= start <= stop <= extent for start, stop, extent in zip(begin, end, shape, strict=True)):
            raise ShapeError(f"{self.name}: begin {begin} and size {size} do not lie in {shape}")
        return Operator.__call__(self.configured(index=tuple(map(slice, begin, end))), input_x)


@register
class SliceGrad(Slicing):
    """Zeros of the shape of ``x`` with ``gradient`` at an index: the gradient of StridedSlice.

    Parameters
    ----------
    index : tuple
        A Python index.

    Examples
    --------
    >>> SliceGrad((slice(0, 1),))([5.0], [1.0, 2.0]).asnumpy().tolist()
    [5.0, 0.0]
    """

    def __init__(self, index: tuple[Any, ...] = ()) -> None:
        self.index = index

    def __call__(self, gradient: Any, x: Any) -> Any:
        return Operator.__call__(self, gradient, x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(inputs[1].shape, inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels, kept = self.labels(inputs[1].shape)
        return Equation((kept, labels), (labels,))

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        target, xp = outputs[0], runtime.array_module
        place = self.view(target)

        def run() -> None:
            target.fill(0)
            xp.copyto(place, inputs[0])

        return run
