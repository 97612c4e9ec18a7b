"""Tensors that are constants to the gradient: zeros, ones, numbers in a row, and a tensor whose gradient is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import DEFAULT_FLOAT, Tensor
from mpiparallel.ops.shapes.reshaping import BroadcastTo

Tensors = Sequence[Tensor]


class Like(Operator):
    """A tensor of the shape, dtype and layout of ``x`` with one value everywhere."""

    follows = True
    value: ClassVar[int]

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.same(len(inputs[0].shape))

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(outputs[0].fill, self.value)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (None,)


@register
class ZerosLike(Like):
    """Zeros of the shape and dtype of ``x``.

    Examples
    --------
    >>> ZerosLike()([1.0, 2.0]).asnumpy().tolist()
    [0.0, 0.0]
    """

    value = 0


@register
class OnesLike(Like):
    """Ones of the shape and dtype of ``x``.

    Examples
    --------
    >>> OnesLike()([1.0, 2.0]).asnumpy().tolist()
    [1.0, 1.0]
    """

    value = 1


@register
class Fill(BroadcastTo):
    """A tensor of a dtype and a shape with ``value`` everywhere.

    Examples
    --------
    >>> Fill()(np.float32, (2,), 1).asnumpy()
    array([1., 1.], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__(())

    def __call__(self, type: Any, shape: Any, value: Any) -> Any:  # MindSpore's name of the dtype
        dtype = np.dtype(type)
        scalar = value if isinstance(value, Tensor) else np.asarray(value, dtype)
        filled = Operator.__call__(self.configured(shape=tuple(shape)), scalar)
        return filled if filled.dtype == dtype else filled.astype(dtype)


@register
class StopGradient(Operator):
    """``x`` itself, with no gradient.

    Examples
    --------
    >>> StopGradient()([1.0, 2.0]).asnumpy().tolist()
    [1.0, 2.0]
    """

    is_view = True
    follows = True

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.same(len(inputs[0].shape))

    def view(self, array: Array) -> Array:
        return array

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (None,)


class Zeros:
    """Zeros of a shape and a dtype.

    Examples
    --------
    >>> Zeros()((2,), np.int32).asnumpy()
    array([0, 0], dtype=int32)
    """

    def __call__(self, shape: Any, type: Any) -> Tensor:
        """Return a tensor of a shape, given as extents or as the only one."""
        return Tensor(np.zeros(shape, np.dtype(type)))


class Ones:
    """Ones of a shape and a dtype.

    Examples
    --------
    >>> Ones()((2,), np.int32).asnumpy()
    array([1, 1], dtype=int32)
    """

    def __call__(self, shape: Any, type: Any) -> Tensor:
        """Return a tensor of a shape, given as extents or as the only one."""
        return Tensor(np.ones(shape, np.dtype(type)))


class Range:
    """``start``, ``start + delta``, ... up to and without ``limit``: int64 from integers, else float32.

    Parameters
    ----------
    maxlen : int
        The most numbers.

    Raises
    ------
    ConfigurationError
        When ``delta`` is 0 or there are more than ``maxlen`` numbers.

    Examples
    --------
    >>> Range()(2, 8, 3).asnumpy().tolist()
    [2, 5]
    """

    def __init__(self, maxlen: int = 1000000) -> None:
        self.maxlen = maxlen

    def __call__(self, start: Any, limit: Any, delta: Any) -> Tensor:
        """Return a tensor of one dim."""
        bounds = [item.item() if isinstance(item, Tensor) else item for item in (start, limit, delta)]
        if bounds[2] == 0:
            raise ConfigurationError("Range: delta is 0; give a step that leads from start to limit")
        numbers = np.arange(*bounds)
        if numbers.size > self.maxlen:
            raise ConfigurationError(
                f"Range: {numbers.size} numbers are more than maxlen {self.maxlen}; give a larger maxlen"
            )
        return Tensor(numbers if numbers.dtype.kind in "iu" else numbers.astype(DEFAULT_FLOAT))
