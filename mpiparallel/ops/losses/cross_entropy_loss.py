"""Cross entropy of logits, and the sum of exponentials that it is made of where the classes are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.compile.differentiate import is_zero
from mpiparallel.errors import GradientError, ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import Term, call, operand, reduce, widened
from mpiparallel.graph.input_checks import check_floating, check_integer, check_shape
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.written_kernels.cross_entropy import mean_loss, row_losses
from mpiparallel.graph.written_kernels.written_text import has_written_kernels, run_after
from mpiparallel.ops.indexing.cut_tables import Indexing

Tensors = Sequence[Tensor]


def _check_logits(logits: TensorSpec) -> None:
    check_floating(logits=logits)
    if len(logits.shape) != 2:
        raise ShapeError(f"logits have shape {logits.shape}; they must be (n, classes)")


def softmax_terms(logits: Term) -> tuple[Term, Term, Term]:
    """Return the largest element of each row, the exponentials of what all are above it, and the sum of these."""
    largest = reduce("max", logits, (-1,))
    exponential = call("exp", logits - largest)
    return largest, exponential, reduce("sum", exponential, (-1,))


@register
class SoftmaxCrossEntropyWithLogits(Operator):
    """``-sum(labels * log(softmax(logits)))`` of each row, and its gradient: softmax * sum(labels) - labels.

    ``logits`` and ``labels`` have shape (n, classes), where labels are probabilities; the outputs are (n,) and (n,
    classes). The dim of classes is not cut.

    Raises
    ------
    ShapeError
        Unless both have the same shape, of two dims, and are of floating point.

    Examples
    --------
    >>> loss, gradient = SoftmaxCrossEntropyWithLogits()([[0.0, 0.0]], [[1.0, 0.0]])
    >>> round(loss.item(), 4), gradient.tolist()
    (0.6931, [[-0.5, 0.5]])
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

    def expression(self, *inputs: Term) -> Sequence[Term]:
        logits, labels = inputs
        largest, exponential, total = softmax_terms(logits)
        likelihood = (logits - (call("log", total) + largest)) * labels
        whole = reduce("sum", labels, (-1,))
        return -reduce("sum", likelihood, (-1,)), exponential * (whole / total) - labels

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        if not is_zero(gradients[1]):
            raise GradientError(f"{self.scope or self.name}: its second output is a gradient and has none of its own")
        return outputs[1] * gradients[0].reshape((-1, 1)), None


@register
class SparseSoftmaxCrossEntropyWithLogits(Indexing):
    """The mean over rows of ``-log(softmax(logits))[label]``, or with ``is_grad`` its gradient for the logits.

    ``logits`` have shape (n, classes), ``labels`` (n,) integers; the output is a scalar, or (n, classes). The dim of
    classes is not cut; where n is, the mean is that of the whole batch.

    Parameters
    ----------
    is_grad : bool
        Whether it gives the gradient.

    Raises
    ------
    ShapeError
        When a label is out of range.

    Examples
    --------
    >>> SparseSoftmaxCrossEntropyWithLogits(is_grad=True)([[0.0, 0.0]], [0]).asnumpy().tolist()
    [[-0.5, 0.5]]
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
        logits, labels = inputs
        fits = logits.flags.c_contiguous and labels.flags.c_contiguous and logits.size > 0
        if fits and has_written_kernels(runtime, logits.dtype):
            bind = self._bind_gradient_launch if self.is_grad else self._bind_mean_launch
        else:
            bind = self._bind_gradient if self.is_grad else self._bind_mean
        return run_after([self.bound_check(runtime, labels)], bind(runtime, logits, labels, outputs[0]))

    def _bind_mean_launch(self, runtime: Runtime, logits: Array, labels: Array, target: Array) -> Kernel:
        return mean_loss(runtime, logits, labels, target, self.count)

    def _bind_gradient_launch(self, runtime: Runtime, logits: Array, labels: Array, target: Array) -> Kernel:
        return row_losses(runtime, logits, labels, None, target, share=1.0 / self.count)

    def _bind_mean(self, runtime: Runtime, logits: Array, labels: Array, target: Array) -> Kernel:
        xp = runtime.array_module
        x = widened(operand(0, logits.shape, logits.dtype))
        largest, _, total = softmax_terms(x)
        logarithm = xp.empty((len(labels), 1), x.dtype)
        pass_over = expression_kernel(runtime, [call("log", total) + largest], [logits], [logarithm])
        rows = xp.arange(len(labels))

        def run() -> None:
            pass_over()
            target[...] = xp.sum(logarithm[:, 0] - logits[rows, labels]) / self.count

        return run

    def _bind_gradient(self, runtime: Runtime, logits: Array, labels: Array, target: Array) -> Kernel:
        _, exponential, total = softmax_terms(widened(operand(0, logits.shape, logits.dtype)))
        softmax = exponential * (1.0 / (total * float(self.count)))
        pass_over = expression_kernel(runtime, [softmax.astype(target.dtype)], [logits], [target])
        rows = runtime.array_module.arange(len(labels))

        def run() -> None:
            pass_over()
            target[rows, labels] -= 1.0 / self.count

        return run

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

    Examples
    --------
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

    def expression(self, *inputs: Term) -> Sequence[Term]:
        x, shift = inputs
        return (reduce("sum", call("exp", x - shift), (-1,)),)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return SumExpGrad()(gradients[0], *inputs), None


@register
class SumExpGrad(ShiftedExponential):
    """``exp(x - shift) * dy``: the gradient of SumExp with respect to x.

    Examples
    --------
    >>> SumExpGrad()([[2.0]], [[0.0, 0.0]], [[0.0]]).asnumpy().tolist()
    [[2.0, 2.0]]
    """

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

    def expression(self, *inputs: Term) -> Sequence[Term]:
        dy, x, shift = inputs
        return (call("exp", x - shift) * dy,)
