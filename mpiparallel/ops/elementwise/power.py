"""Powers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.dtype import smallest_normal
from mpiparallel.graph.broadcasting import sum_to
from mpiparallel.graph.elementwise import Broadcasting
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.elementwise.selection import Select

Tensors = Sequence[Tensor]


@register
class Pow(Broadcasting):
    """``x ** y`` with broadcasting.

    Examples
    --------
    >>> Pow()([2.0, 3.0], [2.0, 2.0]).asnumpy().tolist()
    [4.0, 9.0]
    """

    reuses = (0, 1)

    def __call__(self, x: Any, y: Any) -> Any:
        return super().__call__(x, y)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        # Only a run knows which exponent it is, and 2 is by far the quickest.
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
        # 0 ** -1 is infinite, and 0 times that no number: x ** 0 has a slope of 0 everywhere.
        lowered = Select()(y == 0, 1, y) - 1
        of_base = sum_to(gradients[0] * y * x**lowered, x.shape)
        positive = x.maximum(smallest_normal(x.dtype))
        of_exponent = sum_to(gradients[0] * outputs[0] * positive.log(), y.shape)
        return of_base, of_exponent
