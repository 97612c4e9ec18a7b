"""One-hot encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import check_integer, check_shape, normal_axis
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.written_kernels.row_picks import can_pick, hot_elements
from mpiparallel.ops.indexing.cut_tables import row_places

Tensors = Sequence[Tensor]


@register
class OneHot(Operator):
    """``on_value`` at each index along a new dim ``axis`` of ``depth`` elements, ``off_value`` elsewhere.

    An index outside of 0 to ``depth - 1`` gives ``off_value`` everywhere. A strategy cuts the output and two scalars:
    ((n, depth), (), ()). There is no gradient.

    Parameters
    ----------
    axis : int
        The place of the new dim, -1 for the last.

    Raises
    ------
    ShapeError
        For a negative ``depth``, and for indices or numbers of another kind.

    Examples
    --------
    >>> OneHot()(np.array([2, 0]), 3, 1.0, 0.0).asnumpy()
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """

    depth: int = 0
    first: int = 0
    """The class that the first element along ``axis`` stands for: not 0 where a rank holds later ones."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def __call__(self, indices: Any, depth: Any, on_value: Any = 1.0, off_value: Any = 0.0) -> Any:
        on, off = (value if isinstance(value, Tensor) else Tensor(value) for value in (on_value, off_value))
        return Operator.__call__(self.configured(depth=int(depth)), indices, on, off)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        indices, on_value, off_value = inputs
        check_integer(indices=indices)
        check_shape((), on_value=on_value, off_value=off_value)
        if self.depth < 0:
            raise ShapeError(f"depth {self.depth} must be at least 0")
        axis = normal_axis(self.axis, len(indices.shape) + 1)
        return (TensorSpec((*indices.shape[:axis], self.depth, *indices.shape[axis:]), on_value.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank = len(inputs[0].shape)
        axis = normal_axis(self.axis, rank + 1)
        indices = tuple(f"d{dim}" for dim in range(rank))
        output: Labels = (*indices[:axis], "depth", *indices[axis:])
        batch = indices[0] if indices else "depth"
        return Equation((indices, (), ()), (output,), batch=batch, strategy_inputs=(output, (), ()), order=indices)

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> OneHot:
        axis = normal_axis(self.axis, len(outputs[0].shape))
        return self.configured(depth=outputs[0].shape[axis], first=outputs[0].box.start[axis])

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (indices, on_value, off_value) = runtime.array_module, inputs
        target = xp.moveaxis(outputs[0], self.axis, -1)[None]
        rows = row_places(xp, (1, *indices.shape))
        is_last = normal_axis(self.axis, outputs[0].ndim) == outputs[0].ndim - 1
        is_alike = on_value.dtype == off_value.dtype == outputs[0].dtype
        if is_last and is_alike and can_pick(runtime, indices, on_value, off_value, outputs[0]):
            return hot_elements(runtime, indices, (on_value, off_value), outputs[0], self.first)

        def run() -> None:
            xp.copyto(target, off_value)
            local = indices[None].astype(np.int64) - self.first
            held = xp.logical_and(local >= 0, local < self.depth)
            if self.depth:
                target[(*rows, local.clip(0, self.depth - 1))] = xp.where(held, on_value, off_value)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return None, None, None
