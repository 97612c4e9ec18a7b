"""Sums, means and variances of channels, of the whole batch wherever it is cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.term import Term, reduce
from mpiparallel.graph.input_checks import check_floating, check_shape
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]

_DOUBLE = np.dtype(np.float64)


class ChannelWise(Operator):
    """An operator of tensors (n, c, ...) and of vectors with one number a channel; every dim can be cut.

    A vector that it computes is a sum over all dims but the channels', and partial where these are cut.
    """

    tensors: tuple[int, ...] = (0,)
    """The inputs of shape (n, c, ...)."""

    def check(self, *inputs: TensorSpec) -> None:
        """Raise ShapeError unless the tensors have one shape, and the vectors one element a channel."""
        shape = inputs[0].shape
        if len(shape) < 2:
            raise ShapeError(f"x has shape {shape}; it must be (images, channels, ...)")
        for position, spec in enumerate(inputs):
            check_floating(**{f"input {position}": spec})
            check_shape(shape if position in self.tensors else shape[1:2], **{f"input {position}": spec})

    def labels(self, *inputs: TensorSpec) -> tuple[Labels, Labels]:
        """Return the labels of the tensors and of the vectors."""
        whole: Labels = tuple(f"d{dim}" for dim in range(len(inputs[0].shape)))
        return whole, whole[1:2]

    def rule(self, inputs: Sequence[TensorSpec], outputs: Sequence[bool]) -> Equation:
        """Return the equation of outputs that are tensors, where ``outputs`` says so, or vectors."""
        whole, channel = self.labels(*inputs)
        given = tuple(whole if position in self.tensors else channel for position in range(len(inputs)))
        return Equation(given, tuple(whole if is_tensor else channel for is_tensor in outputs), batch="d0")

    def spread(self, *inputs: Term) -> tuple[Term, ...]:
        """Return the tensors as they are, and the vectors in a shape that broadcasts with them."""
        column = (*inputs[0].shape[1:2], *(1,) * (len(inputs[0].shape) - 2))
        return tuple(one if place in self.tensors else one.reshape(column) for place, one in enumerate(inputs))

    @staticmethod
    def summed_dims(x: Term) -> tuple[int, ...]:
        """Return all dims of a tensor but the channels'."""
        return (0, *range(2, len(x.shape)))


@register
class BNTrainingReduce(ChannelWise):
    """The sum and the sum of squares of each channel of ``x`` (n, c, ...), both float64.

    Where dims other than the channels' are cut, each rank sums its part.

    Examples
    --------
    >>> [one.asnumpy().tolist() for one in BNTrainingReduce()(np.array([[1.0, 2.0], [3.0, 4.0]]))]
    [[4.0, 6.0], [10.0, 20.0]]
    """

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.check(*inputs)
        vector = TensorSpec(inputs[0].shape[1:2], _DOUBLE)
        return vector, vector

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.rule(inputs, (False, False))

    def expression(self, *inputs: Term) -> Sequence[Term]:
        x = inputs[0]
        # A mean or squares rounded to float32 are as wrong as a variance far below the squared mean is large.
        wide = x.astype(_DOUBLE)
        return tuple(reduce("sum", one, self.summed_dims(x)) for one in (wide, wide * wide))

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (BNTrainingReduceInputGrad()(inputs[0], *gradients),)


@register
class BNTrainingReduceInputGrad(ChannelWise):
    """The gradient of BNTrainingReduce: ``dsum + 2 * x * dsquare_sum``.

    Examples
    --------
    >>> BNTrainingReduceInputGrad()(np.array([[1.0], [3.0]]), np.array([1.0]), np.array([0.5])).asnumpy().tolist()
    [[2.0], [4.0]]
    """

    def __call__(self, x: Any, dsum: Any, dsquare_sum: Any) -> Any:
        return super().__call__(x, dsum, dsquare_sum)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.check(*inputs)
        return (inputs[0],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.rule(inputs, (True,))

    def expression(self, *inputs: Term) -> Sequence[Term]:
        x, dsum, dsquare_sum = self.spread(*inputs)
        return (x * (dsquare_sum * 2.0).astype(x.dtype) + dsum.astype(x.dtype),)


@register
class BNMoments(Operator):
    """The mean and the variance of ``count`` elements of each channel from their sum and their sum of squares.

    The variance is that of the elements themselves, divided by ``count``. Follows its inputs.

    Parameters
    ----------
    count : int
        Elements of a channel.

    Examples
    --------
    >>> [one.asnumpy().tolist() for one in BNMoments(2)(np.array([4.0]), np.array([10.0]))]
    [[2.0], [1.0]]
    """

    follows = True

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, sum: Any, square_sum: Any) -> Any:
        return super().__call__(sum, square_sum)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_shape(inputs[0].shape, square_sum=inputs[1])
        return inputs

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.same(1, 1, outputs=2)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (total, square_total), (mean, variance) = runtime.array_module, inputs, outputs
        square = runtime.scratch(tuple(mean.shape), mean.dtype)

        def run() -> None:
            xp.divide(total, self.count, out=mean)
            xp.divide(square_total, self.count, out=variance)
            xp.multiply(mean, mean, out=square)
            xp.subtract(variance, square, out=variance)
            xp.maximum(variance, 0, out=variance)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        (mean, _), (dmean, dvariance) = outputs, gradients
        count = float(self.count)
        return (dmean - dvariance * mean * 2.0) / count, dvariance / count
