"""Arithmetic of two tensors with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.operator import Kernel
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.broadcasting import sum_to
from mpiparallel.ops.elementwise import Elementwise, Log, promote

Tensors = Sequence[Tensor]


class Arithmetic(Elementwise):
    """An element-wise operator of two tensors; output 0 may be computed in the memory of either."""

    reuses = (0, 1)

    def __call__(self, x: Any, y: Any) -> Any:
        return super().__call__(x, y)


@register
class Add(Arithmetic):
    """``x + y`` with broadcasting."""

    function = "add"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return tuple(sum_to(gradients[0], x.shape) for x in inputs)


@register
class Sub(Arithmetic):
    """``x - y`` with broadcasting."""

    function = "subtract"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, y = inputs
        return sum_to(gradients[0], x.shape), -sum_to(gradients[0], y.shape)


@register
class Mul(Arithmetic):
    """``x * y`` with broadcasting."""

    function = "multiply"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, y = inputs
        return sum_to(gradients[0] * y, x.shape), sum_to(gradients[0] * x, y.shape)


@register
class Div(Arithmetic):
    """``x / y`` with broadcasting; integers are divided as floats."""

    function = "true_divide"

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        common = promote(*dtypes)
        return common if common.kind in "fc" else np.dtype(np.float32)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        function = getattr(runtime.array_module, self.function)
        return partial(function, *inputs, out=outputs[0], dtype=outputs[0].dtype, casting="unsafe")

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, y = inputs
        scaled = gradients[0] / y
        return sum_to(scaled, x.shape), -sum_to(scaled * outputs[0], y.shape)


@register
class RealDiv(Div):
    """``x / y`` with broadcasting: MindSpore's other name of Div."""


@register
class FloorDiv(Arithmetic):
    """The largest integer not above ``x / y``, with broadcasting, of the dtype of both; its gradient is 0."""

    function = "floor_divide"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return None, None


@register
class FloorMod(Arithmetic):
    """``x - floor(x / y) * y`` with broadcasting: it has the sign of ``y``, as Python's ``%``."""

    function = "remainder"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, y = inputs
        return sum_to(gradients[0], x.shape), -sum_to(gradients[0] * FloorDiv()(x, y), y.shape)


@register
class Pow(Arithmetic):
    """``x ** y`` with broadcasting."""

    function = "power"

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        # Only a run knows which exponent it is, and 2 is by far the quickest.
        return None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (base, exponent), target = runtime.array_module, inputs, outputs[0]
        cheap_to_read = xp is np and exponent.ndim == 0

        def run() -> None:
            if cheap_to_read and exponent == 2:
                xp.multiply(base, base, out=target)
            else:
                xp.power(base, exponent, out=target)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, y = inputs
        of_base = sum_to(gradients[0] * y * x ** (y - 1), x.shape)
        positive = Maximum()(x, np.finfo(x.dtype).tiny)
        of_exponent = sum_to(gradients[0] * outputs[0] * Log()(positive), y.shape)
        return of_base, of_exponent


class Extremum(Arithmetic):
    """The larger or smaller element; of two equal ones each takes half of the gradient."""

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, y = inputs
        dtype = gradients[0].dtype
        share_x = (x == outputs[0]).astype(dtype)
        share_y = (y == outputs[0]).astype(dtype)
        scaled = gradients[0] / (share_x + share_y)
        return sum_to(scaled * share_x, x.shape), sum_to(scaled * share_y, y.shape)


@register
class Maximum(Extremum):
    """The larger of ``x`` and ``y`` with broadcasting."""

    function = "maximum"


@register
class Minimum(Extremum):
    """The smaller of ``x`` and ``y`` with broadcasting."""

    function = "minimum"
