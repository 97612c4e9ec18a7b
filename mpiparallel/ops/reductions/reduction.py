"""Reductions over dims: sum, mean, maximum, minimum, product, and, or."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.compatibility.arguments import only
from mpiparallel.dtype import is_floating, is_inexact, is_narrow
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.term import Term, reduce
from mpiparallel.graph.input_checks import check_bool
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.layout import Reduction as Reducing
from mpiparallel.ops.shapes.reshaping import BroadcastTo

Tensors = Sequence[Tensor]


def is_one_kernel(runtime: Runtime, x: Array) -> bool:
    """Return whether a sum of x is an expression's kernel, not a call of the array library."""
    is_compiled = runtime.backend.kernels is not None and x.dtype.kind == "f" and x.ndim > 0
    return is_compiled or is_narrow(x.dtype)


class DimReduction(Operator):
    """A reduction over the dims ``axis``, all when it is ``()``; ``keep_dims`` keeps them with one element.

    Where a reduced dim is cut, each rank reduces its part, and the output is partial.
    """

    reduction: ClassVar[Reducing] = "sum"
    axis: tuple[int, ...] = ()

    def __init__(self, keep_dims: bool = False) -> None:
        self.keep_dims = keep_dims

    def __call__(self, x: Any, axis: Any = ()) -> Any:
        given = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
        return Operator.__call__(self.configured(axis=given), x)

    def dims(self, rank: int) -> tuple[int, ...]:
        """Return the reduced dims of a tensor with ``rank`` dims, ascending."""
        if any(not -rank <= dim < rank for dim in self.axis):
            raise ShapeError(f"axis {self.axis} is out of range for {rank} dims; use {-rank} to {rank - 1}")
        return tuple(sorted({dim % rank for dim in self.axis})) if self.axis else tuple(range(rank))

    def kept_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output's shape as it is with ``keep_dims``."""
        dims = self.dims(len(shape))
        return tuple(1 if dim in dims else extent for dim, extent in enumerate(shape))

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = inputs[0].shape
        dims = self.dims(len(shape))
        if not self.keep_dims:
            return (TensorSpec(tuple(n for dim, n in enumerate(shape) if dim not in dims), inputs[0].dtype),)
        return (TensorSpec(self.kept_shape(shape), inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank = len(inputs[0].shape)
        dims = self.dims(rank)
        labels = tuple(f"d{dim}" for dim in range(rank))
        if self.keep_dims:
            output = tuple(None if dim in dims else label for dim, label in enumerate(labels))
        else:
            output = tuple(label for dim, label in enumerate(labels) if dim not in dims)
        return Equation((labels,), (output,), reduction=self.reduction, batch=labels[0] if labels else None)

    def spread(self, x: Tensor, reduced: Tensor) -> Tensor:
        """Return ``reduced``, of the output's shape, in a shape that broadcasts with ``x``."""
        kept = self.kept_shape(x.shape)
        return reduced if reduced.shape == kept else reduced.reshape(kept)


@register
class ReduceSum(DimReduction):
    """The sum over dims.

    Parameters
    ----------
    keep_dims : bool
        Whether they stay, with an extent of 1.
    skip_mode : bool
        False.

    Raises
    ------
    ConfigurationError
        For ``skip_mode``.

    Examples
    --------
    >>> ReduceSum(keep_dims=True)(np.ones((2, 3)), 1).shape
    (2, 1)
    """

    def __init__(self, keep_dims: bool = False, skip_mode: bool = False) -> None:
        super().__init__(keep_dims)
        only("ReduceSum", "skip_mode", skip_mode, False, "leave the operator out where there is no axis")

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        x = inputs[0]
        return (reduce("sum", x, self.dims(len(x.shape))),) if is_floating(x.dtype) else None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        if is_one_kernel(runtime, inputs[0]):
            return super().kernel(runtime, inputs, outputs)
        dims = self.dims(inputs[0].ndim)
        return partial(runtime.array_module.add.reduce, inputs[0], axis=dims, out=outputs[0], keepdims=self.keep_dims)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (BroadcastTo(inputs[0].shape)(self.spread(inputs[0], gradients[0])),)


@register
class ReduceMean(DimReduction):
    """The mean over dims, of the whole tensor wherever it is cut.

    Parameters
    ----------
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Examples
    --------
    >>> ReduceMean()([[1.0, 2.0], [3.0, 4.0]], 0).asnumpy().tolist()
    [2.0, 3.0]
    """

    count: int = 0

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        if not is_inexact(inputs[0].dtype):
            raise ShapeError(f"x is of dtype {inputs[0].dtype}; cast it to a floating-point dtype")
        return super().infer(*inputs)

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> ReduceMean:
        shape = inputs[0].global_shape
        return self.configured(count=prod(shape[dim] for dim in self.dims(len(shape))))

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        x = inputs[0]
        return (
            (reduce("sum", x * (1.0 / max(self.count, 1)), self.dims(len(x.shape))),) if is_floating(x.dtype) else None
        )

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, x, target = runtime.array_module, inputs[0], outputs[0]
        if is_one_kernel(runtime, x):
            return super().kernel(runtime, inputs, outputs)
        dims = self.dims(x.ndim)
        count = target.dtype.type(self.count)

        def run() -> None:
            xp.add.reduce(x, axis=dims, out=target, keepdims=self.keep_dims)
            xp.true_divide(target, count, out=target)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x = inputs[0]
        count = prod(x.shape[dim] for dim in self.dims(x.ndim))
        return (BroadcastTo(x.shape)(self.spread(x, gradients[0] / float(count))),)


class ReduceExtremum(DimReduction):
    """The largest or smallest element over dims; equal ones share the gradient evenly."""

    function: ClassVar[str]

    def identity(self, dtype: np.dtype[Any]) -> Any:
        """Return what the reduction of no elements is."""
        raise NotImplementedError(self.name)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        x = inputs[0]
        # CuPy's universal functions reduce by addition and multiplication only.
        function = getattr(runtime.array_module, self.reduction)
        if x.size == 0:
            return partial(outputs[0].fill, self.identity(x.dtype))
        find = partial(function, x, axis=self.dims(x.ndim), out=outputs[0], keepdims=self.keep_dims)
        return _without_warnings(find) if is_narrow(x.dtype) else find

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x = inputs[0]
        chosen = (x == self.spread(x, outputs[0])).astype(gradients[0].dtype)
        share = self.spread(x, gradients[0]) / ReduceSum(keep_dims=True)(chosen, self.axis)
        return (chosen * share,)


def _without_warnings(kernel: Kernel) -> Kernel:
    """Return a kernel that passes NaN on in silence, as NumPy's own floats do and bfloat16 does not."""

    def run() -> None:
        with np.errstate(invalid="ignore"):
            kernel()

    return run


@register
class ReduceMax(ReduceExtremum):
    """The largest element over dims.

    Parameters
    ----------
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Examples
    --------
    >>> ReduceMax()([[1.0, 4.0], [3.0, 2.0]], 0).asnumpy().tolist()
    [3.0, 4.0]
    """

    reduction = "max"
    function = "maximum"

    def identity(self, dtype: np.dtype[Any]) -> Any:
        return -np.inf if is_floating(dtype) else False if dtype.kind == "b" else np.iinfo(dtype).min


@register
class ReduceMin(ReduceExtremum):
    """The smallest element over dims.

    Parameters
    ----------
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Examples
    --------
    >>> ReduceMin()([[1.0, 4.0], [3.0, 2.0]], 0).asnumpy().tolist()
    [1.0, 2.0]
    """

    reduction = "min"
    function = "minimum"

    def identity(self, dtype: np.dtype[Any]) -> Any:
        return np.inf if is_floating(dtype) else True if dtype.kind == "b" else np.iinfo(dtype).max


@register
class ReduceProd(DimReduction):
    """The product over dims; its gradient is right where elements are 0 too.

    Parameters
    ----------
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Examples
    --------
    >>> ReduceProd()([[1.0, 4.0], [3.0, 2.0]], 0).asnumpy().tolist()
    [3.0, 8.0]
    """

    reduction = "prod"

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        x, xp = inputs[0], runtime.array_module
        return partial(xp.multiply.reduce, x, axis=self.dims(x.ndim), out=outputs[0], keepdims=self.keep_dims)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x = inputs[0]
        is_zero = (x == 0.0).astype(x.dtype)
        others = x + is_zero
        zeros = ReduceSum(keep_dims=True)(is_zero, self.axis)
        product = ReduceProd(keep_dims=True)(others, self.axis)
        counts = (zeros == is_zero).astype(x.dtype)
        return (product / others * counts * self.spread(x, gradients[0]),)


class ReduceLogic(ReduceExtremum):
    """A reduction of booleans, which has no gradient."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_bool(x=inputs[0])
        return super().infer(*inputs)

    def identity(self, dtype: np.dtype[Any]) -> Any:
        return self.reduction == "min"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (None,)


@register
class ReduceAll(ReduceLogic):
    """Whether all elements over dims hold.

    Parameters
    ----------
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Examples
    --------
    >>> ReduceAll()([[True, False], [True, True]], 1).asnumpy().tolist()
    [False, True]
    """

    reduction = "min"
    function = "minimum"


@register
class ReduceAny(ReduceLogic):
    """Whether any element over dims holds.

    Parameters
    ----------
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Examples
    --------
    >>> ReduceAny()([[True, False], [False, False]], 1).asnumpy().tolist()
    [True, False]
    """

    reduction = "max"
    function = "maximum"


def reduced_loss(losses: Tensor, reduction: str, name: str) -> Tensor:
    """Return the mean, the sum, or the losses themselves; raise ConfigurationError for another reduction."""
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise ConfigurationError(f"{name}: reduction {reduction!r} is not one of 'mean', 'sum', 'none'")
    return losses.mean() if reduction == "mean" else losses.sum()
