"""Choice by a condition, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import is_floating, is_inexact
from mpiparallel.graph.broadcasting import sum_to
from mpiparallel.graph.elementwise import Broadcasting, promote
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.term import Term, call
from mpiparallel.graph.input_checks import check_bool
from mpiparallel.graph.operator import Kernel, register
from mpiparallel.graph.tensor import DEFAULT_FLOAT, Tensor

Tensors = Sequence[Tensor]


def _fitting(item: Any, beside: Any) -> Any:
    """Return a number as a tensor of the dtype beside it; floats beside integers are float32."""
    if not isinstance(item, (bool, int, float)) or not hasattr(beside, "dtype"):
        return item
    is_wider = isinstance(item, float) and not is_inexact(beside.dtype)
    return np.asarray(item, DEFAULT_FLOAT if is_wider else beside.dtype)


def filling(value: Any, x: Any) -> Any:
    """Return a number that takes the place of elements of a tensor as one of its dtype; a tensor as it is."""
    return np.asarray(value, x.dtype) if isinstance(value, (bool, int, float)) and hasattr(x, "dtype") else value


@register
class Select(Broadcasting):
    """``x`` where ``condition`` holds, ``y`` elsewhere, with broadcasting.

    Raises
    ------
    ShapeError
        When the condition is not bool, or the shapes do not broadcast.

    Examples
    --------
    >>> Select()([True, False], [1.0, 2.0], [3.0, 4.0]).asnumpy().tolist()
    [1.0, 4.0]
    """

    def __call__(self, condition: Any, x: Any, y: Any) -> Any:
        return super().__call__(condition, _fitting(x, y), _fitting(y, x))

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_bool(condition=inputs[0])
        return super().infer(*inputs)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return promote(*dtypes[1:])

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        condition, x, y = inputs
        floats = condition.dtype.kind == "b" and is_floating(x.dtype) and is_floating(y.dtype)
        return (call("where", *inputs),) if floats else None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        condition, x, y = inputs
        target, xp = outputs[0], runtime.array_module

        def run() -> None:
            xp.copyto(target, y)
            xp.copyto(target, x, where=condition)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        condition, x, y = inputs
        of_x = Select()(condition, gradients[0], 0.0)
        of_y = Select()(condition, 0.0, gradients[0])
        return None, sum_to(of_x, x.shape), sum_to(of_y, y.shape)
