"""Half the sum of squares of a tensor, read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.blocks import block_size, element_blocks
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import operand, reduce, widened
from mpiparallel.graph.input_checks import check_floating
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.written_kernels.written_text import run_after

Tensors = Sequence[Tensor]
_SLOT: Final = 8
"""Scratch memory that no kernel of terms uses."""


def _two_launches(runtime: Runtime, x: Array, target: Array) -> Kernel:
    """Return what adds up the squares of x, and sets ``target`` to half of that."""
    term = widened(operand(0, x.shape, x.dtype))
    squares = reduce("sum", (term * term).astype(np.float64), range(x.ndim))
    held = runtime.scratch(squares.shape, squares.dtype, _SLOT)
    half = (operand(0, (), held.dtype) * 0.5).astype(target.dtype)
    adding = expression_kernel(runtime, [squares], [x], [held])
    return run_after([adding], expression_kernel(runtime, [half], [held.reshape(())], [target]))


@register
class L2Loss(Operator):
    """``sum(x * x) / 2`` over all elements; where x is cut, the output is partial.

    Examples
    --------
    >>> float(L2Loss()(np.array([3.0, 1.0])))
    5.0
    """

    def __call__(self, input_x: Any) -> Any:
        return super().__call__(input_x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_floating(x=inputs[0])
        return (TensorSpec((), inputs[0].dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels = tuple(f"d{dim}" for dim in range(len(inputs[0].shape)))
        return Equation((labels,), ((),), batch=next(iter(labels), None))

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, target = runtime.array_module, outputs[0]
        if runtime.backend.kernels is not None and inputs[0].size:
            return _two_launches(runtime, inputs[0] if inputs[0].ndim else inputs[0].reshape(1), target)
        dtype = np.promote_types(target.dtype, np.float32)
        blocks = [block for (block,) in element_blocks([inputs[0]], block_size(runtime)) if block.size]

        def run() -> None:
            total = xp.zeros((), dtype)
            for block in blocks:
                flat = block.astype(dtype, copy=False).reshape(-1)
                total += xp.dot(flat, flat)
            xp.multiply(total, 0.5, out=total)
            xp.copyto(target, total, casting="same_kind")

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (inputs[0] * gradients[0],)
