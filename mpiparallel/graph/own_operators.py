"""The operators that the graph itself needs: sums of gradients, and change of dtype."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import is_floating, is_inexact
from mpiparallel.graph.elementwise import Binary, operator_of
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.functions_of_two import ADDITION
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]

if TYPE_CHECKING:

    class Add(Binary):
        """``input + other`` with broadcasting."""
else:
    Add = register(operator_of(ADDITION, __name__))


@register
class Cast(Operator):
    """``x`` with elements of another dtype; between floats the gradient is cast back, elsewhere there is none.

    Examples
    --------
    >>> from mpiparallel import ops
    >>> ops.Cast()([1.7, -1.7], np.int32).tolist()
    [1, -1]
    """

    dtype: np.dtype[Any] = np.dtype(np.float32)
    follows = True
    linear = True
    keeps_dtypes = True

    def __call__(self, x: Any, dtype: Any = None) -> Any:
        return Operator.__call__(self.configured(dtype=np.dtype(self.dtype if dtype is None else dtype)), x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(inputs[0].shape, self.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.same(len(inputs[0].shape))

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        source = inputs[0].dtype
        is_computed = is_floating(self.dtype) and (is_floating(source) or source.kind in "iub")
        return (inputs[0].astype(self.dtype),) if is_computed else None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.copyto, outputs[0], inputs[0], casting="unsafe")

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        source = inputs[0].dtype
        return (Cast()(gradients[0], source) if is_inexact(source) and is_inexact(self.dtype) else None,)
