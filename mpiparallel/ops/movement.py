"""Operators that cut tensors apart and put them together: split, concatenate, slice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.errors import ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.ops.input_checks import normal_axis

Tensors = Sequence[Tensor]


def _along(rank: int, axis: int, count_in: int, count_out: int) -> Equation:
    """Return the rule of an operator on tensors that are cut alike but for ``axis``, which stays whole."""
    labels: Labels = tuple(None if dim == axis else f"d{dim}" for dim in range(rank))
    return Equation((labels,) * count_in, (labels,) * count_out, batch=next((one for one in labels if one), None))


@register
class Split(Operator):
    """The tensor cut into ``output_num`` equal pieces along dim ``axis``, which no strategy may cut."""

    def __init__(self, axis: int = 0, output_num: int = 1) -> None:
        self.axis = axis
        self.output_num = output_num

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = list(inputs[0].shape)
        axis = normal_axis(self.axis, len(shape))
        if shape[axis] % self.output_num:
            raise ShapeError(f"dim {axis} of {inputs[0].shape} cannot be split into {self.output_num} equal pieces")
        shape[axis] //= self.output_num
        return (TensorSpec(tuple(shape), inputs[0].dtype),) * self.output_num

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank = len(inputs[0].shape)
        return _along(rank, normal_axis(self.axis, rank), 1, self.output_num)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp = runtime.array_module
        pairs = list(zip(outputs, xp.split(inputs[0], self.output_num, axis=self.axis), strict=True))

        def run() -> None:
            for target, piece in pairs:
                xp.copyto(target, piece)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (Concat(self.axis)(tuple(gradients)),)


@register
class Concat(Operator):
    """Tensors put one after another along dim ``axis``, which no strategy may cut."""

    def __init__(self, axis: int = 0) -> None:
        self.axis = axis

    def __call__(self, input_x: Sequence[Any]) -> Any:
        return super().__call__(*input_x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = list(inputs[0].shape)
        axis = normal_axis(self.axis, len(shape))
        for spec in inputs:
            if [*spec.shape[:axis], *spec.shape[axis + 1 :]] != [*shape[:axis], *shape[axis + 1 :]]:
                raise ShapeError(f"{spec.shape} cannot be concatenated with {inputs[0].shape} along dim {axis}")
        shape[axis] = sum(spec.shape[axis] for spec in inputs)
        return (TensorSpec(tuple(shape), np.result_type(*(spec.dtype for spec in inputs))),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank = len(inputs[0].shape)
        return _along(rank, normal_axis(self.axis, rank), len(inputs), 1)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.concatenate, inputs, axis=self.axis, out=outputs[0])

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        axis = self.axis % inputs[0].ndim
        start, pieces = 0, []
        for x in inputs:
            stop = start + x.shape[axis]
            pieces.append(gradients[0][(slice(None),) * axis + (slice(start, stop),)])
            start = stop
        return pieces


class Slicing(Operator):
    """An operator at Python indices and slices of a tensor; only dims that are taken whole may be cut."""

    index: tuple[Any, ...] = ()

    def per_dim(self, shape: tuple[int, ...]) -> tuple[int | slice, ...]:
        """Return one index or slice for each dim of a tensor of ``shape``."""
        given = [item for item in self.index if item is not Ellipsis]
        if len(given) > len(shape):
            raise ShapeError(f"{len(given)} indices for the {len(shape)} dims of {shape}")
        fill = [slice(None)] * (len(shape) - len(given))
        at = self.index.index(Ellipsis) if Ellipsis in self.index else len(given)
        return (*given[:at], *fill, *given[at:])

    def labels(self, shape: tuple[int, ...]) -> tuple[Labels, Labels]:
        """Return the labels of a tensor of ``shape`` and of its part."""
        items = self.per_dim(shape)
        labels = tuple(f"d{dim}" if item == slice(None) else None for dim, item in enumerate(items))
        kept = tuple(label for label, item in zip(labels, items, strict=True) if isinstance(item, slice))
        return labels, kept

    def view(self, array: Array) -> Array:
        return array[self.index if Ellipsis in self.index else (*self.index, ...)]


@register
class StridedSlice(Slicing):
    """A part of a tensor by Python indices and slices; only dims that are taken whole may be cut."""

    is_view = True

    def __call__(self, x: Any, index: Any) -> Any:
        given = index if isinstance(index, tuple) else (index,)
        if any(not isinstance(item, (int, slice, type(Ellipsis))) for item in given):
            raise ShapeError(f"index {index!r} must be made of integers, slices and ...; use ops.gather for tensors")
        return Operator.__call__(self.configured(index=given), x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = []
        for extent, item in zip(inputs[0].shape, self.per_dim(inputs[0].shape), strict=True):
            if isinstance(item, slice):
                shape.append(len(range(*item.indices(extent))))
            elif not -extent <= item < extent:
                raise ShapeError(f"index {item} is out of range for a dim of {extent} elements of {inputs[0].shape}")
        return (TensorSpec(tuple(shape), inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels, kept = self.labels(inputs[0].shape)
        return Equation((labels,), (kept,), batch=next((one for one in labels if one), None))

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (SliceGrad(self.index)(gradients[0], inputs[0]),)


@register
class SliceGrad(Slicing):
    """Zeros of the shape of ``x`` with ``gradient`` at an index: the gradient of StridedSlice."""

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
