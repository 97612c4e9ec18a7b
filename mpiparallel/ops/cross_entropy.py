"""Cross entropy of logits, and the sum of exponentials that it is made of where the classes are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.errors import GradientError, ShapeError
from mpiparallel.graph.differentiate import is_zero
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import Part, TensorSpec
from mpiparallel.ops.blocks import block_size, row_blocks, with_scratch
from mpiparallel.ops.gather import Indexing
from mpiparallel.ops.input_checks import check_floating, check_integer, check_shape

Tensors = Sequence[Tensor]


def _check_logits(logits: TensorSpec) -> None:
    check_floating(logits=logits)
    if len(logits.shape) != 2:
        raise ShapeError(f"logits have shape {logits.shape}; they must be (n, classes)")


def _softmax(xp: Any, logits: Array, target: Array, shift: Array, total: Array) -> None:
    """Compute softmax of each row, with its largest element as ``shift`` and its sum of exponentials as ``total``."""
    xp.max(logits, axis=-1, keepdims=True, out=shift)
    xp.subtract(logits, shift, out=target)
    xp.exp(target, out=target)
    xp.sum(target, axis=-1, keepdims=True, out=total)
    xp.divide(target, total, out=target)


@register
class SoftmaxCrossEntropyWithLogits(Operator):
    """``-sum(labels * log(softmax(logits)))`` of each row, and its gradient: softmax * sum(labels) - labels.

    ``logits`` and ``labels`` have shape (n, classes), where labels are probabilities; the outputs are (n,) and (n,
    classes). The dim of classes is not cut.
    """

    def __call__(self, logits: Any, labels: Any) -> Any:
        return super().__call__(logits, labels)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        logits, labels = inputs
        _check_logits(logits)
        check_shape(logits.shape, labels=labels)
        return TensorSpec(logits.shape[:1], logits.dtype), logits

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels: Labels = ("n", "classes")
        return Equation((labels, labels), (labels[:1], labels), frozenset({"classes"}), batch="n")

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (logits, labels), (loss, gradient) = runtime.array_module, inputs, outputs
        pieces = row_blocks([logits, labels, gradient, loss[:, None]], 1, block_size(runtime))
        blocks = [
            (*block, *(runtime.scratch(tuple(block[3].shape), loss.dtype, slot) for slot in (1, 2)))
            for block in with_scratch(runtime, pieces, 1, loss.dtype)
        ]

        def run() -> None:
            for block in blocks:
                self._compute(xp, *block)

        return run

    @staticmethod
    def _compute(xp: Any, *block: Array) -> None:
        logits, labels, gradient, loss, product, shift, total = block
        _softmax(xp, logits, gradient, shift, total)
        xp.log(total, out=total)
        xp.add(total, shift, out=total)
        xp.subtract(logits, total, out=product)
        xp.multiply(product, labels, out=product)
        xp.sum(product, axis=-1, keepdims=True, out=loss)
        xp.negative(loss, out=loss)
        xp.sum(labels, axis=-1, keepdims=True, out=total)
        xp.multiply(gradient, total, out=gradient)
        xp.subtract(gradient, labels, out=gradient)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        if not is_zero(gradients[1]):
            raise GradientError(f"{self.scope or self.name}: its second output is a gradient and has none of its own")
        return outputs[1] * gradients[0].reshape((-1, 1)), None


@register
class SparseSoftmaxCrossEntropyWithLogits(Indexing):
    """The mean over rows of ``-log(softmax(logits))[label]``, or with ``is_grad`` its gradient for the logits.

    ``logits`` have shape (n, classes), ``labels`` (n,) integers; the output is a scalar, or (n, classes). The dim of
    classes is not cut; where n is, the mean is that of the whole batch. Raises ShapeError when a label is out of
    range.
    """

    axis = 1
    count: int = 1
    """Rows of the whole batch."""

    def __init__(self, is_grad: bool = False) -> None:
        self.is_grad = is_grad

    def __call__(self, logits: Any, labels: Any) -> Any:
        return super().__call__(logits, labels)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        logits, labels = inputs
        _check_logits(logits)
        check_integer(labels=labels)
        check_shape(logits.shape[:1], labels=labels)
        return (logits if self.is_grad else TensorSpec((), logits.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        logits: Labels = ("n", "classes")
        output: Labels = logits if self.is_grad else ()
        return Equation((logits, logits[:1]), (output,), frozenset({"classes"}), batch="n")

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> SparseSoftmaxCrossEntropyWithLogits:
        operator: SparseSoftmaxCrossEntropyWithLogits = self.holding(inputs[0])
        return operator.configured(count=inputs[0].global_shape[0])

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (logits, labels), target = runtime.array_module, inputs, outputs[0]
        pieces = row_blocks([logits, labels, *([target] if self.is_grad else [])], 1, block_size(runtime))
        blocks = [
            (
                *block,
                xp.arange(len(block[1])),
                *(runtime.scratch((len(block[1]), 1), target.dtype, slot) for slot in (1, 2)),
            )
            for block in (pieces if self.is_grad else with_scratch(runtime, pieces, 1, target.dtype))
        ]
        add = self._gradient_of_block if self.is_grad else self._add_block

        def run() -> None:
            self.check(labels)
            target.fill(0)
            for block in blocks:
                add(xp, target, *block)

        return run

    def _add_block(self, xp: Any, target: Array, *block: Array) -> None:
        logits, labels, product, rows, shift, total = block
        _softmax(xp, logits, product, shift, total)
        xp.log(total, out=total)
        xp.add(total, shift, out=total)
        target += xp.sum(total[:, 0] - logits[rows, labels]) / self.count

    def _gradient_of_block(self, xp: Any, target: Array, *block: Array) -> None:
        logits, labels, part, rows, shift, total = block
        _softmax(xp, logits, part, shift, total)
        part[rows, labels] -= 1
        xp.divide(part, self.count, out=part)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        if self.is_grad:
            raise GradientError(f"{self.scope or self.name}: it is a gradient and has none of its own")
        logits, labels = inputs
        return SparseSoftmaxCrossEntropyWithLogits(is_grad=True)(logits, labels) * gradients[0], None


class ShiftedExponential(Operator):
    """What SumExp and its gradient share."""

    @staticmethod
    def labels(rank: int) -> tuple[Labels, Labels]:
        """Return the labels of x and of a tensor with one element in x's last dim."""
        x: Labels = tuple(f"d{dim}" for dim in range(rank))
        return x, (*x[:-1], None)

    @staticmethod
    def check(x: TensorSpec, **rows: TensorSpec) -> None:
        """Raise ShapeError unless x has dims and the others have its shape with one element in the last."""
        check_floating(x=x)
        if not x.shape:
            raise ShapeError("x has no dims; it needs at least one, to sum over")
        check_shape((*x.shape[:-1], 1), **rows)


@register
class SumExp(ShiftedExponential):
    """``sum(exp(x - shift))`` over the last dim, which may be cut: then the output is partial.

    ``x`` has shape (..., v), ``shift`` and the output (..., 1). With the largest element of each row as ``shift``,
    the logarithm of the sum of exponentials is ``log(SumExp()(x, shift)) + shift``. As that does not depend on the
    shift, none gets a gradient here.

    >>> import numpy as np
    >>> SumExp()(np.zeros((1, 4)), np.zeros((1, 1))).asnumpy()
    array([[4.]])
    """

    def __call__(self, x: Any, shift: Any) -> Any:
        return super().__call__(x, shift)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        x, shift = inputs
        self.check(x, shift=shift)
        return (TensorSpec(shift.shape, x.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        x, row = self.labels(len(inputs[0].shape))
        return Equation((x, row), (row,), batch=x[0])

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, x = runtime.array_module, inputs[0]
        pieces = row_blocks([*inputs, outputs[0]], x.ndim - 1, block_size(runtime))
        blocks = with_scratch(runtime, pieces, 1, x.dtype)

        def run() -> None:
            for part, shift, target, exponential in blocks:
                xp.subtract(part, shift, out=exponential)
                xp.exp(exponential, out=exponential)
                xp.sum(exponential, axis=-1, keepdims=True, out=target)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return SumExpGrad()(gradients[0], *inputs), None


@register
class SumExpGrad(ShiftedExponential):
    """``exp(x - shift) * dy``: the gradient of SumExp with respect to x."""

    reuses = (1,)

    def __call__(self, dy: Any, x: Any, shift: Any) -> Any:
        return super().__call__(dy, x, shift)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        dy, x, shift = inputs
        self.check(x, dy=dy, shift=shift)
        return (x,)

    def equation(self, *inputs: TensorSpec) -> Equation:
        x, row = self.labels(len(inputs[1].shape))
        return Equation((row, x, row), (x,), batch=x[0])

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp = runtime.array_module
        blocks = row_blocks([*inputs, outputs[0]], inputs[1].ndim - 1, block_size(runtime))

        def run() -> None:
            for dy, x, shift, target in blocks:
                xp.subtract(x, shift, out=target)
                xp.exp(target, out=target)
                xp.multiply(target, dy, out=target)

        return run
