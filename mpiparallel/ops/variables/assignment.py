"""Operators that overwrite a variable with a value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.operator import Kernel, Operator, register


class Assignment(Operator):
    """An operator that overwrites a variable with what it computes from it and a value, of its shape or 0-d."""

    updates = (0,)

    def __call__(self, variable: Any, value: Any) -> Any:
        return super().__call__(variable, value)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        variable, value = inputs
        if value.shape not in ((), variable.shape):
            raise ShapeError(f"value has shape {value.shape}; it must be that of the variable, {variable.shape}, or ()")
        return ()

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels: Labels = tuple(f"d{dim}" for dim in range(len(inputs[0].shape)))
        return Equation((labels, labels if inputs[1].shape else ()), (), batch=labels[0] if labels else None)


@register
class Assign(Assignment):
    """``variable = value``.

    Raises
    ------
    ShapeError
        When the value has another shape.

    Examples
    --------
    >>> from mpiparallel.graph.parameter import Parameter
    >>> variable = Parameter([1.0], "w")
    >>> _ = Assign()(variable, [3.0])
    >>> variable.asnumpy().tolist()
    [3.0]
    """

    def expression(self, *inputs: Term) -> Sequence[Term]:
        _, value = inputs
        return (value,)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.copyto, *inputs, casting="same_kind")


@register
class AssignAdd(Assignment):
    """``variable += value``.

    Raises
    ------
    ShapeError
        When the value has another shape.

    Examples
    --------
    >>> from mpiparallel.graph.parameter import Parameter
    >>> variable = Parameter([1.0], "w")
    >>> _ = AssignAdd()(variable, [3.0])
    >>> variable.asnumpy().tolist()
    [4.0]
    """

    def expression(self, *inputs: Term) -> Sequence[Term]:
        variable, value = inputs
        return (variable + value,)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.add, *inputs, out=inputs[0])


@register
class AssignSub(Assignment):
    """``variable -= value``.

    Raises
    ------
    ShapeError
        When the value has another shape.

    Examples
    --------
    >>> from mpiparallel.graph.parameter import Parameter
    >>> variable = Parameter([1.0], "w")
    >>> _ = AssignSub()(variable, [3.0])
    >>> variable.asnumpy().tolist()
    [-2.0]
    """

    def expression(self, *inputs: Term) -> Sequence[Term]:
        variable, value = inputs
        return (variable - value,)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.subtract, *inputs, out=inputs[0])
