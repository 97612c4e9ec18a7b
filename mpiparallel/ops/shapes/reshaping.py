"""Operators that show or repeat the same elements in another shape: reshape, transpose, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import gcd, prod
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ShapeError
from mpiparallel.graph.broadcasting import broadcast_shape, sum_to
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import normal_axis
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]


def dim_groups(source: tuple[int, ...], target: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the leading dims (of source, of target) of the shortest runs of dims that hold equally many elements.

    Dims of one element that only one side has belong to no run.

    >>> dim_groups((6, 4), (2, 3, 4))
    [(0, 0), (1, 2)]
    """
    groups = []
    i = j = 0
    while i < len(source) and j < len(target):
        if (source[i] == 1) != (target[j] == 1):
            i, j = i + (source[i] == 1), j + (target[j] == 1)
            continue
        groups.append((i, j))
        left, right = source[i], target[j]
        i, j = i + 1, j + 1
        while left != right and i < len(source) and j < len(target):
            if left < right:
                left, i = left * source[i], i + 1
            else:
                right, j = right * target[j], j + 1
    return groups


@register
class Reshape(Operator):
    """The elements in the same order in another shape; one extent may be -1.

    Without elements moving, only the leading dim of a run of dims that are merged or split can stay cut. It can stay
    cut only into parts that divide it on both sides. It takes no strategy: it follows its input.

    Raises
    ------
    ShapeError
        When the shapes have other numbers of elements.

    Examples
    --------
    >>> Reshape()([[1.0, 2.0], [3.0, 4.0]], (-1,)).asnumpy().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    is_view = True
    needs_order = True
    follows = True
    shape: tuple[int, ...] = ()

    def __call__(self, x: Any, shape: Any) -> Any:
        return Operator.__call__(self.configured(shape=tuple(int(extent) for extent in shape)), x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = self.shape
        if shape.count(-1) == 1:
            known = prod(extent for extent in shape if extent != -1)
            # Beside no elements any extent would fit: it is refused below, as in NumPy.
            missing = inputs[0].size // known if known else -1
            shape = tuple(missing if extent == -1 else extent for extent in shape)
        if any(extent < 0 for extent in shape) or prod(shape) != inputs[0].size:
            raise ShapeError(f"{inputs[0].shape} cannot be reshaped to {self.shape}: give shapes of as many elements")
        return (TensorSpec(shape, inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        source, target = inputs[0].shape, self.infer(*inputs)[0].shape
        before: list[str | None] = [None] * len(source)
        after: list[str | None] = [None] * len(target)
        divisors = {}
        for i, j in dim_groups(source, target):
            before[i] = after[j] = label = f"d{i}"
            if source[i] != target[j]:
                divisors[label] = gcd(source[i], target[j])
        return Equation((tuple(before),), (tuple(after),), divisors=divisors)

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Reshape:
        return self.configured(shape=outputs[0].shape)

    def view(self, array: Array) -> Array:
        return array.reshape(self.shape)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.copyto, outputs[0].reshape(inputs[0].shape), inputs[0])

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0].reshape(inputs[0].shape),)


def _extents(x: Any) -> tuple[int, ...]:
    return x.shape if isinstance(x, Tensor) else np.shape(x)


@register
class ExpandDims(Reshape):
    """The tensor with a new dim of one element at ``axis``.

    Examples
    --------
    >>> ExpandDims()(np.ones((2, 3)), -1).shape
    (2, 3, 1)
    """

    def __call__(self, input_x: Any, axis: Any) -> Any:
        shape = _extents(input_x)
        place = normal_axis(int(axis), len(shape) + 1)
        return super().__call__(input_x, (*shape[:place], 1, *shape[place:]))


@register
class Squeeze(Reshape):
    """The tensor without its dims ``axis``, each of one element; without all such dims when ``axis`` is ``()``.

    Parameters
    ----------
    axis : int or tuple of int
        The dims.

    Raises
    ------
    ShapeError
        When one of them has more elements.

    Examples
    --------
    >>> Squeeze()(np.ones((2, 1, 3))).shape
    (2, 3)
    """

    def __init__(self, axis: int | Sequence[int] = ()) -> None:
        self.axis = (axis,) if isinstance(axis, int) else tuple(axis)

    def __call__(self, input_x: Any, shape: Any = None) -> Any:
        extents = _extents(input_x)
        ones = [dim for dim, extent in enumerate(extents) if extent == 1]
        dims = [normal_axis(axis, len(extents)) for axis in self.axis] or ones
        if any(dim not in ones for dim in dims):
            raise ShapeError(f"{self.name}: axis {self.axis} of shape {extents} must name dims of one element")
        return super().__call__(input_x, [extent for dim, extent in enumerate(extents) if dim not in dims])


@register
class Flatten(Reshape):
    """The tensor (n, ...) as n rows.

    Raises
    ------
    ShapeError
        When the tensor has no dims.

    Examples
    --------
    >>> Flatten()(np.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __call__(self, input_x: Any, shape: Any = None) -> Any:
        extents = _extents(input_x)
        if not extents:
            raise ShapeError(f"{self.name}: x has no dims; it needs at least one, for the rows")
        return super().__call__(input_x, (extents[0], prod(extents[1:])))


@register
class Transpose(Operator):
    """The tensor with dims permuted: dim ``d`` of the output is dim ``input_perm[d]`` of the input.

    Raises
    ------
    ShapeError
        When it is no permutation of the dims.

    Examples
    --------
    >>> Transpose()([[1.0, 2.0], [3.0, 4.0]], (1, 0)).asnumpy().tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """

    is_view = True
    permutation: tuple[int, ...] = ()

    def __call__(self, x: Any, input_perm: Any) -> Any:
        return Operator.__call__(self.configured(permutation=tuple(input_perm)), x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = inputs[0].shape
        if sorted(normal_axis(dim, len(shape)) for dim in self.permutation) != list(range(len(shape))):
            raise ShapeError(f"{self.permutation} is no permutation of the {len(shape)} dims of {shape}")
        return (TensorSpec(tuple(shape[dim] for dim in self.permutation), inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels = tuple(f"d{dim}" for dim in range(len(inputs[0].shape)))
        output = tuple(labels[dim] for dim in self.permutation)
        return Equation((labels,), (output,), batch=labels[0] if labels else None)

    def view(self, array: Array) -> Array:
        return array.transpose(self.permutation)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        inverse = tuple(int(dim) for dim in np.argsort([dim % len(self.permutation) for dim in self.permutation]))
        return (gradients[0].transpose(inverse),)


@register
class BroadcastTo(Operator):
    """The tensor repeated along its dims of one element, and along new leading dims, to ``shape``.

    Parameters
    ----------
    shape : sequence of int
        That of the output; -1 stands for the extent that the tensor has there, a new leading dim needs a number.

    Raises
    ------
    ShapeError
        Where the tensor does not fit.

    Examples
    --------
    >>> BroadcastTo((2, -1, 3))(np.ones((4, 1))).shape
    (2, 4, 3)
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)

    def shape_of(self, source: tuple[int, ...]) -> tuple[int, ...]:
        """Return ``shape`` for a tensor of the shape ``source``, with what -1 stands for."""
        new = len(self.shape) - len(source)
        if new < 0 or any(extent < -1 for extent in self.shape):
            raise ShapeError(f"{source} cannot be broadcast to {self.shape}")
        if -1 in self.shape[:new]:
            raise ShapeError(
                f"{source} cannot be broadcast to {self.shape}: -1 stands for an extent that the tensor has, and the "
                f"first {new} dims are new; give them numbers"
            )
        known = (1,) * new + source
        return tuple(have if extent == -1 else extent for extent, have in zip(self.shape, known, strict=True))

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        target = self.shape_of(inputs[0].shape)
        if broadcast_shape(inputs[0].shape, target) != target:
            raise ShapeError(f"{inputs[0].shape} cannot be broadcast to {self.shape}")
        return (TensorSpec(target, inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        target = self.shape_of(inputs[0].shape)
        names = tuple(f"d{dim}" for dim in range(len(target)))
        start = len(target) - len(inputs[0].shape)
        labels = tuple(
            names[start + dim] if extent == target[start + dim] else None for dim, extent in enumerate(inputs[0].shape)
        )
        return Equation((labels,), (names,), batch=next((label for label in labels if label), None))

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> BroadcastTo:
        return self.configured(shape=outputs[0].shape)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.copyto, outputs[0], inputs[0])

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (sum_to(gradients[0], inputs[0].shape),)
