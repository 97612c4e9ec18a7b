"""A tensor as it is: what is given a strategy where a tensor is to lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator import Operator, register
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]


@register
class Identity(Operator):
    """``x`` itself, laid out as its strategy says.

    Examples
    --------
    >>> Identity()([1.0, 2.0]).asnumpy().tolist()
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
        return (Identity()(gradients[0]),)
