"""Sums of the elements of a row up to each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import is_narrow
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import normal_axis
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]


@register
class CumSum(Operator):
    """The sum of the elements up to each along dim ``axis``, which no strategy may cut.

    Parameters
    ----------
    exclusive : bool
        Whether the element itself is left out.
    reverse : bool
        Whether it sums from the end.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> CumSum()([1, 2, 3], 0).asnumpy().tolist()
    [1, 3, 6]
    >>> CumSum(exclusive=True, reverse=True)([1, 2, 3], 0).asnumpy().tolist()
    [5, 3, 0]
    """

    axis: int = 0

    def __init__(self, exclusive: bool = False, reverse: bool = False) -> None:
        self.exclusive = exclusive
        self.reverse = reverse

    def __call__(self, input: Any, axis: Any) -> Any:
        return Operator.__call__(self.configured(axis=int(axis)), input)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        normal_axis(self.axis, len(inputs[0].shape))
        return (inputs[0],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank = len(inputs[0].shape)
        axis = normal_axis(self.axis, rank)
        labels: Labels = tuple(None if dim == axis else f"d{dim}" for dim in range(rank))
        return Equation((labels,), (labels,), batch=next((one for one in labels if one), None))

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp = runtime.array_module
        source, target = (xp.moveaxis(array, self.axis, 0) for array in (inputs[0], outputs[0]))
        if self.reverse:
            source, target = source[::-1], target[::-1]
        first = target[:1]
        if self.exclusive:
            source, target = source[:-1], target[1:]

        is_short = is_narrow(target.dtype)

        def run() -> None:
            if self.exclusive:
                first.fill(0)
            if is_short:
                xp.copyto(target, xp.cumsum(source, axis=0, dtype=np.float32), casting="unsafe")
            else:
                xp.cumsum(source, axis=0, dtype=target.dtype, out=target)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (CumSum(self.exclusive, not self.reverse)(gradients[0], self.axis),)
