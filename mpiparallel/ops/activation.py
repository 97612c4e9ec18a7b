"""Activation functions, with their gradients fused into one operator each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.operator import Kernel
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.blocks import Blockwise
from mpiparallel.ops.elementwise import Unary

Tensors = Sequence[Tensor]

_GELU_LINEAR = sqrt(2.0 / pi)
_GELU_CUBIC = 0.044715 * _GELU_LINEAR


@register
class ReLU(Unary):
    """``max(x, 0)``; its gradient at 0 is 0.

    >>> ReLU()(np.array([-1.0, 2.0])).asnumpy()
    array([0., 2.])
    """

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.maximum, inputs[0], inputs[0].dtype.type(0), out=outputs[0])

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (ReluGrad()(gradients[0], outputs[0]),)


@register
class ReluGrad(Blockwise):
    """``dy`` where ``y``, the output of ReLU, is positive; 0 elsewhere."""

    reuses = (0, 1)
    scratch_count = 1

    def __call__(self, dy: Any, y: Any) -> Any:
        return super().__call__(dy, y)

    def compute(self, xp: Any, *arrays: Array) -> None:
        dy, y, target, positive = arrays
        xp.greater(y, 0, out=positive)
        xp.multiply(dy, positive, out=target)


@register
class GeLU(Blockwise):
    """``x * Phi(x)`` by its tanh form, ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))``.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016).
    """

    reuses = (0,)
    scratch_count = 1

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def compute(self, xp: Any, *arrays: Array) -> None:
        x, target, gate = arrays
        _gelu_tanh(xp, x, gate)
        xp.add(gate, 1.0, out=gate)
        xp.multiply(gate, x, out=gate)
        xp.multiply(gate, 0.5, out=target)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (GeluGrad()(gradients[0], inputs[0]),)


def _gelu_tanh(xp: Any, x: Array, target: Array) -> None:
    xp.multiply(x, x, out=target, dtype=target.dtype)
    xp.multiply(target, _GELU_CUBIC, out=target)
    xp.add(target, _GELU_LINEAR, out=target)
    xp.multiply(target, x, out=target)
    xp.tanh(target, out=target)


@register
class GeluGrad(Blockwise):
    """``dy`` times the derivative of GeLU at ``x``."""

    reuses = (0, 1)
    scratch_count = 3

    def __call__(self, dy: Any, x: Any) -> Any:
        return super().__call__(dy, x)

    def compute(self, xp: Any, *arrays: Array) -> None:
        dy, x, target, tangent, slope, rest = arrays
        _gelu_tanh(xp, x, tangent)
        xp.multiply(x, x, out=slope, dtype=slope.dtype)
        xp.multiply(slope, 3.0 * _GELU_CUBIC, out=slope)
        xp.add(slope, _GELU_LINEAR, out=slope)
        xp.multiply(slope, x, out=slope)
        xp.subtract(1.0, tangent, out=rest)
        xp.multiply(slope, rest, out=slope)
        xp.add(slope, 1.0, out=slope)
        xp.add(tangent, 1.0, out=tangent)
        xp.multiply(slope, tangent, out=slope)
        xp.multiply(slope, dy, out=slope)
        xp.multiply(slope, 0.5, out=target)


@register
class Sigmoid(Blockwise):
    """``1 / (1 + exp(-x))``."""

    reuses = (0,)

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def compute(self, xp: Any, *arrays: Array) -> None:
        x, target = arrays
        xp.negative(x, out=target)
        with np.errstate(over="ignore"):
            xp.exp(target, out=target)
        xp.add(target, 1.0, out=target)
        xp.reciprocal(target, out=target)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (SigmoidGrad()(outputs[0], gradients[0]),)


@register
class SigmoidGrad(Blockwise):
    """``dy * y * (1 - y)``, where ``y`` is the output of Sigmoid."""

    reuses = (0, 1)
    scratch_count = 1

    def __call__(self, y: Any, dy: Any) -> Any:
        return super().__call__(y, dy)

    def compute(self, xp: Any, *arrays: Array) -> None:
        y, dy, target, slope = arrays
        xp.subtract(1.0, y, out=slope)
        xp.multiply(slope, y, out=slope)
        xp.multiply(slope, dy, out=target)
