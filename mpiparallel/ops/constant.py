"""Tensors that are constants to the gradient: zeros, ones, one value, and a tensor whose gradient is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.ops.reshape import BroadcastTo

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
    """Zeros of the shape and dtype of ``x``."""

    value = 0


@register
class OnesLike(Like):
    """Ones of the shape and dtype of ``x``."""

    value = 1


@register
class Fill(BroadcastTo):
    """A tensor of a dtype and a shape with ``value`` everywhere.

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
    """``x`` itself, with no gradient."""

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
