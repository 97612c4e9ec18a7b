"""Whether numbers are finite, on all ranks alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import is_inexact
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import call, operand, reduce, widened
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.written_kernels.written_text import run_after
from mpiparallel.parallel.collective_operators import AllReduce

_SLOT: Final = 8
"""Scratch memory that no kernel of terms uses."""


def _counted_status(runtime: Runtime, x: Array, target: Array) -> Kernel:
    """Return what counts the elements that are not finite, and sets ``target`` to 1 where there are any."""
    term = widened(operand(0, x.shape, x.dtype))
    count = reduce(
        "sum", call("logical_not", call("less", call("absolute", term), np.inf)).astype(np.float64), range(x.ndim)
    )
    held = runtime.scratch(count.shape, count.dtype, _SLOT)
    status = call("minimum", operand(0, (1,), held.dtype), 1.0).astype(target.dtype)
    counting = expression_kernel(runtime, [count], [x], [held])
    return run_after([counting], expression_kernel(runtime, [status], [held.reshape(1)], [target]))


@register
class FloatStatus(Operator):
    """1 if some element of ``x`` is infinite or no number, else 0: float32 of shape (1,).

    Examples
    --------
    >>> FloatStatus()(np.array([1.0, np.nan])).asnumpy()
    array([1.], dtype=float32)
    """

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec((1,), np.dtype(np.float32)),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels = tuple(f"d{dim}" for dim in range(len(inputs[0].shape)))
        return Equation((labels,), ((None,),), reduction="max", batch=labels[0] if labels else None)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, x, target = runtime.array_module, inputs[0], outputs[0]
        if not is_inexact(x.dtype):
            return lambda: target.fill(0)
        if runtime.backend.name != "cpu":
            # Nothing of it goes by the host, which would have to wait.
            return _counted_status(runtime, x if x.ndim else x.reshape(1), target)
        wide = np.result_type(x.dtype, np.float32)

        def run() -> None:
            # A sum is finite only if all terms are, and costs no array; only one that overflows needs a second look.
            with np.errstate(invalid="ignore", over="ignore"):
                sound = bool(xp.isfinite(xp.add.reduce(x, axis=None, dtype=wide))) or bool(xp.isfinite(x).all())
            target.fill(0.0 if sound else 1.0)

        return run


class AgreedMaximum(AllReduce):
    """The largest of what the ranks ``group`` hold of a small tensor, element by element, on each of them.

    Each rank gives its own, even where the layouts say that all hold the same: what is decided by it is decided alike.
    """

    meets_all = True

    def __init__(self, group: tuple[int, ...]) -> None:
        super().__init__("max", group)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels = tuple(None for _ in inputs[0].shape)
        return Equation((labels,), (labels,))
