"""Comparison, logic, and choice by a condition, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.expression.term import Term, call
from mpiparallel.graph.operator import Kernel
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.ops.broadcasting import sum_to
from mpiparallel.ops.elementwise import Elementwise, Unary, promote
from mpiparallel.ops.input_checks import check_bool

Tensors = Sequence[Tensor]


class Comparison(Elementwise):
    """An element-wise comparison; its output is bool and has no gradient."""

    def __call__(self, x: Any, y: Any) -> Any:
        return super().__call__(x, y)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(np.bool_)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (None,) * len(inputs)


@register
class Equal(Comparison):
    """``x == y`` with broadcasting."""

    function = "equal"


@register
class NotEqual(Comparison):
    """``x != y`` with broadcasting."""

    function = "not_equal"


@register
class Less(Comparison):
    """``x < y`` with broadcasting."""

    function = "less"


@register
class LessEqual(Comparison):
    """``x <= y`` with broadcasting."""

    function = "less_equal"


@register
class Greater(Comparison):
    """``x > y`` with broadcasting."""

    function = "greater"


@register
class GreaterEqual(Comparison):
    """``x >= y`` with broadcasting."""

    function = "greater_equal"


class Logic(Comparison):
    """An element-wise function of two booleans."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_bool(x=inputs[0], y=inputs[1])
        return super().infer(*inputs)


@register
class LogicalAnd(Logic):
    """``x and y`` with broadcasting."""

    function = "logical_and"


@register
class LogicalOr(Logic):
    """``x or y`` with broadcasting."""

    function = "logical_or"


@register
class LogicalNot(Unary):
    """``not x``."""

    function = "logical_not"

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_bool(x=inputs[0])
        return super().infer(*inputs)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(np.bool_)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (None,)


@register
class Select(Elementwise):
    """``x`` where ``condition`` holds, ``y`` elsewhere, with broadcasting."""

    def __call__(self, condition: Any, x: Any, y: Any) -> Any:
        if isinstance(x, (bool, int, float)) and hasattr(y, "dtype"):
            x = np.asarray(x, y.dtype)
        elif isinstance(y, (bool, int, float)) and hasattr(x, "dtype"):
            y = np.asarray(y, x.dtype)
        return super().__call__(condition, x, y)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_bool(condition=inputs[0])
        return super().infer(*inputs)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return promote(*dtypes[1:])

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        condition, x, y = inputs
        floats = condition.dtype.kind == "b" and x.dtype.kind == y.dtype.kind == "f"
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
