"""Activation functions, with their gradients fused into one operator each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import pi, sqrt
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.expression.term import Term, call
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

    >>> import numpy as np
    >>> ReLU()(np.array([-1.0, 2.0])).asnumpy()
    array([0., 2.])
    """

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        return (call("maximum", inputs[0], 0.0),) if inputs[0].dtype.kind == "f" else None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.maximum, inputs[0], inputs[0].dtype.type(0), out=outputs[0])

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (ReluGrad()(gradients[0], outputs[0]),)


@register
class ReluGrad(Blockwise):
    """``dy`` where ``y``, the output of ReLU, is positive; 0 elsewhere."""

    reuses = (0, 1)

    def __call__(self, dy: Any, y: Any) -> Any:
        return super().__call__(dy, y)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        dy, y = inputs
        return (dy * call("greater", y, 0.0),)


@register
class GeLU(Blockwise):
    """``x * Phi(x)`` by its tanh form, ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))``.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016).
    """

    reuses = (0,)

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        x = inputs[0]
        return (x / (1.0 + _gelu_tail(x)),)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (GeluGrad()(gradients[0], inputs[0]),)


def _gelu_tail(x: Term) -> Term:
    """Return ``exp(-2 u)``; ``(1 + tanh(u)) / 2`` is ``1 / (1 + exp(-2 u))``, and that is exact where u is negative."""
    return call("exp", x * (-2.0 * _GELU_LINEAR - (x * x) * (2.0 * _GELU_CUBIC)))


@register
class GeluGrad(Blockwise):
    """``dy`` times the derivative of GeLU at ``x``."""

    reuses = (0, 1)

    def __call__(self, dy: Any, x: Any) -> Any:
        return super().__call__(dy, x)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        dy, x = inputs
        gate = 1.0 / (1.0 + _gelu_tail(x))
        slope = x * (2.0 * _GELU_LINEAR + (x * x) * (6.0 * _GELU_CUBIC))
        return (dy * gate * (1.0 + slope * (1.0 - gate)),)


@register
class Sigmoid(Blockwise):
    """``1 / (1 + exp(-x))``."""

    reuses = (0,)

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        return (1.0 / (1.0 + call("exp", -inputs[0])),)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (SigmoidGrad()(outputs[0], gradients[0]),)


@register
class SigmoidGrad(Blockwise):
    """``dy * y * (1 - y)``, where ``y`` is the output of Sigmoid."""

    reuses = (0, 1)

    def __call__(self, y: Any, dy: Any) -> Any:
        return super().__call__(y, dy)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        y, dy = inputs
        return ((1.0 - y) * y * dy,)
