"""Operators that cut tensors apart and put them together along a dim: split, concatenate, stack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import common_dtype
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import normal_axis
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]


def _along(rank: int, axis: int, count_in: int, count_out: int) -> Equation:
    """Return the rule of an operator on tensors that are cut alike but for ``axis``, which stays whole."""
    labels: Labels = tuple(None if dim == axis else f"d{dim}" for dim in range(rank))
    return Equation((labels,) * count_in, (labels,) * count_out, batch=next((one for one in labels if one), None))


def _some(operator: str, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return tensors; raise ShapeError where there is none."""
    given = tuple(tensors)
    if not given:
        raise ShapeError(f"{operator}: there is no tensor; give at least one")
    return given


@register
class Split(Operator):
    """The tuple of ``output_num`` equal pieces of a tensor along dim ``axis``, which no strategy may cut.

    Parameters
    ----------
    axis : int
        The dim, negative ones from the right.
    output_num : int
        At least 1.

    Raises
    ------
    ConfigurationError
        When ``output_num`` is no such integer.
    ShapeError
        When the pieces would not be equal.

    Examples
    --------
    >>> import numpy as np
    >>> [piece.shape for piece in Split(0, 1)(np.ones((4, 2)))]
    [(4, 2)]
    """

    gives_tuple = True

    def __init__(self, axis: int = 0, output_num: int = 1) -> None:
        if not isinstance(output_num, int) or isinstance(output_num, bool) or output_num < 1:
            raise ConfigurationError(f"Split: output_num={output_num!r} must be an integer of at least 1")
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
    """Tensors put one after another along dim ``axis``, which no strategy may cut.

    Parameters
    ----------
    axis : int
        The dim, negative ones from the right.

    Raises
    ------
    ShapeError
        When the tensors do not fit, or there is none.

    Examples
    --------
    >>> Concat()(([1.0], [2.0, 3.0])).asnumpy().tolist()
    [1.0, 2.0, 3.0]
    """

    saved_names = ("MakeTuple", "Concat")

    def __init__(self, axis: int = 0) -> None:
        self.axis = axis

    def __call__(self, input_x: Sequence[Any]) -> Any:
        return super().__call__(*_some(self.name, input_x))

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = list(inputs[0].shape)
        axis = normal_axis(self.axis, len(shape))
        for spec in inputs:
            if [*spec.shape[:axis], *spec.shape[axis + 1 :]] != [*shape[:axis], *shape[axis + 1 :]]:
                raise ShapeError(f"{spec.shape} cannot be concatenated with {inputs[0].shape} along dim {axis}")
        shape[axis] = sum(spec.shape[axis] for spec in inputs)
        return (TensorSpec(tuple(shape), common_dtype(*(spec.dtype for spec in inputs))),)

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


@register
class Stack(Operator):
    """Tensors of one shape put one after another along a new dim ``axis``.

    Parameters
    ----------
    axis : int
        The place of the new dim.

    Raises
    ------
    ShapeError
        When shapes differ, or there is no tensor.

    Examples
    --------
    >>> import numpy as np
    >>> Stack(1)((np.zeros(2), np.ones(2))).asnumpy().tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """

    saved_names = ("MakeTuple", "Stack")

    def __init__(self, axis: int = 0) -> None:
        self.axis = axis

    def __call__(self, input_x: Sequence[Any]) -> Any:
        return super().__call__(*_some(self.name, input_x))

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = inputs[0].shape
        axis = normal_axis(self.axis, len(shape) + 1)
        for spec in inputs:
            if spec.shape != shape:
                raise ShapeError(f"{spec.shape} cannot be stacked with {shape}; they must be equal")
        dtype = common_dtype(*(spec.dtype for spec in inputs))
        return (TensorSpec((*shape[:axis], len(inputs), *shape[axis:]), dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        piece, whole = _stacked(len(inputs[0].shape), self.axis)
        return Equation((piece,) * len(inputs), (whole,), batch=next(iter(piece), None))

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.stack, inputs, axis=self.axis, out=outputs[0])

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        before = (slice(None),) * normal_axis(self.axis, outputs[0].ndim)
        return [gradients[0][(*before, place)] for place in range(len(inputs))]


@register
class Unstack(Operator):
    """The tuple of the slices of a tensor along dim ``axis``, which no strategy may cut, without that dim.

    Parameters
    ----------
    axis : int
        The dim, negative ones from the right.
    num : int, optional
        How many there must be.

    Raises
    ------
    ShapeError
        Where there are not ``num`` of them.

    Examples
    --------
    >>> [one.asnumpy().tolist() for one in Unstack()([[1.0, 2.0], [3.0, 4.0]])]
    [[1.0, 2.0], [3.0, 4.0]]
    """

    gives_tuple = True

    def __init__(self, axis: int = 0, num: int | None = None) -> None:
        self.axis, self.num = axis, num

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = inputs[0].shape
        axis = normal_axis(self.axis, len(shape))
        if self.num not in (None, shape[axis]):
            raise ShapeError(f"Unstack: num={self.num!r} must be the extent of dim {self.axis} of {shape}, or left out")
        return (TensorSpec((*shape[:axis], *shape[axis + 1 :]), inputs[0].dtype),) * shape[axis]

    def equation(self, *inputs: TensorSpec) -> Equation:
        shape = inputs[0].shape
        piece, whole = _stacked(len(shape) - 1, self.axis)
        return Equation((whole,), (piece,) * shape[normal_axis(self.axis, len(shape))], batch=next(iter(piece), None))

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp = runtime.array_module
        pieces = xp.moveaxis(inputs[0], self.axis, 0)
        pairs = [(target, pieces[place, ...]) for place, target in enumerate(outputs)]

        def run() -> None:
            for target, piece in pairs:
                xp.copyto(target, piece)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (Stack(self.axis)(tuple(gradients)),)


def _stacked(rank: int, axis: int) -> tuple[Labels, Labels]:
    """Return the labels of a tensor with ``rank`` dims and of several along a new dim ``axis``."""
    piece: Labels = tuple(f"d{dim}" for dim in range(rank))
    place = normal_axis(axis, rank + 1)
    return piece, (*piece[:place], None, *piece[place:])
