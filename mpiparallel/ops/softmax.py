"""Softmax and its logarithm, with their gradients fused into one operator each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.ops.blocks import block_size, row_blocks, with_scratch
from mpiparallel.ops.input_checks import check_floating, check_shape, normal_axis

Tensors = Sequence[Tensor]


class AlongAxis(Operator):
    """An operator of tensors of one shape that computes row after row along dim ``axis``, which no strategy may cut."""

    scratch_count: ClassVar[int] = 1
    """How many scratch arrays of a block's shape ``compute`` is given, before one number for each row."""

    def __init__(self, axis: int | tuple[int] = -1) -> None:
        self.axis = axis if isinstance(axis, int) else int(axis[0])

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_floating(x=inputs[0])
        normal_axis(self.axis, len(inputs[0].shape))
        for position, spec in enumerate(inputs):
            check_shape(inputs[0].shape, **{f"input {position}": spec})
        return (inputs[0],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank = len(inputs[0].shape)
        axis = normal_axis(self.axis, rank)
        rule = Equation.same(*(rank,) * len(inputs), whole=(axis,))
        labels = [label for label in rule.labels if label not in rule.whole]
        return Equation(rule.inputs, rule.outputs, rule.whole, batch=labels[0] if labels else None)

    def compute(self, xp: Any, *arrays: Array) -> None:
        """Compute a block of rows along the last dim from the arrays of inputs, output, scratch and row numbers."""
        raise NotImplementedError(self.name)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, compute, dtype = runtime.array_module, self.compute, outputs[0].dtype
        arrays = [xp.moveaxis(array, self.axis, -1) for array in (*inputs, outputs[0])]
        pieces = row_blocks(arrays, arrays[0].ndim - 1, block_size(runtime))
        blocks = [
            (*block, runtime.scratch((*block[0].shape[:-1], 1), dtype, self.scratch_count))
            for block in with_scratch(runtime, pieces, self.scratch_count, dtype)
        ]

        def run() -> None:
            for block in blocks:
                compute(xp, *block)

        return run


@register
class Softmax(AlongAxis):
    """``exp(x) / sum(exp(x))`` along dim ``axis``, computed without overflow.

    >>> import numpy as np
    >>> Softmax()(np.zeros((1, 4))).asnumpy()
    array([[0.25, 0.25, 0.25, 0.25]])
    """

    reuses = (0,)
    scratch_count = 0

    def __call__(self, logits: Any) -> Any:
        return super().__call__(logits)

    def compute(self, xp: Any, *arrays: Array) -> None:
        x, target, row = arrays
        xp.max(x, axis=-1, keepdims=True, out=row)
        xp.subtract(x, row, out=target)
        xp.exp(target, out=target)
        xp.sum(target, axis=-1, keepdims=True, out=row)
        xp.reciprocal(row, out=row)
        xp.multiply(target, row, out=target)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (SoftmaxGrad(self.axis)(outputs[0], gradients[0]),)


@register
class SoftmaxGrad(AlongAxis):
    """``y * (dy - sum(y * dy))`` along dim ``axis``, where ``y`` is the output of Softmax."""

    reuses = (0, 1)

    def __call__(self, y: Any, dy: Any) -> Any:
        return super().__call__(y, dy)

    def compute(self, xp: Any, *arrays: Array) -> None:
        y, dy, target, product, row = arrays
        xp.multiply(y, dy, out=product)
        xp.sum(product, axis=-1, keepdims=True, out=row)
        xp.subtract(dy, row, out=product)
        xp.multiply(product, y, out=target)


@register
class LogSoftmax(AlongAxis):
    """The logarithm of softmax along dim ``axis``."""

    reuses = (0,)

    def __call__(self, logits: Any) -> Any:
        return super().__call__(logits)

    def compute(self, xp: Any, *arrays: Array) -> None:
        x, target, exponential, row = arrays
        xp.max(x, axis=-1, keepdims=True, out=row)
        xp.subtract(x, row, out=target)
        xp.exp(target, out=exponential)
        xp.sum(exponential, axis=-1, keepdims=True, out=row)
        xp.log(row, out=row)
        xp.subtract(target, row, out=target)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (LogSoftmaxGrad(self.axis)(outputs[0], gradients[0]),)


@register
class LogSoftmaxGrad(AlongAxis):
    """``dy - exp(y) * sum(dy)`` along dim ``axis``, where ``y`` is the output of LogSoftmax."""

    reuses = (0, 1)

    def __call__(self, y: Any, dy: Any) -> Any:
        return super().__call__(y, dy)

    def compute(self, xp: Any, *arrays: Array) -> None:
        y, dy, target, product, row = arrays
        xp.sum(dy, axis=-1, keepdims=True, out=row)
        xp.exp(y, out=product)
        xp.multiply(product, row, out=product)
        xp.subtract(dy, product, out=target)
