"""Normalisation by channel from given statistics, in training and in inference, with its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.expression.term import Term, call, reduce
from mpiparallel.graph.operator import register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.elementwise import Sqrt
from mpiparallel.ops.normalization.batch_statistics import ChannelWise

Tensors = Sequence[Tensor]


def deviation(variance: Term, epsilon: float) -> Term:
    """Return ``sqrt(variance + epsilon)`` in float64."""
    return call("sqrt", variance.astype(np.float64) + epsilon)


class Normalise(ChannelWise):
    """What training and inference share: ``(x - mean) / sqrt(variance + epsilon) * scale + offset`` by channel."""

    reuses = (0,)
    saved_names = ("BatchNorm", "BNTrainingUpdate", "BNInfer")

    def __init__(self, epsilon: float = 1e-5) -> None:
        self.epsilon = epsilon

    def __call__(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        return super().__call__(x, scale, offset, mean, variance)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.check(*inputs)
        return (inputs[0],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.rule(inputs, (True,))

    def expression(self, *inputs: Term) -> Sequence[Term]:
        x, scale, offset, mean, variance = self.spread(*inputs)
        slope = scale / deviation(variance, self.epsilon)
        return (x * slope.astype(x.dtype) + (offset - mean * slope).astype(x.dtype),)


@register
class BNInfer(Normalise):
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset`` by channel of ``x`` (n, c, ...), statistics given.

    Parameters
    ----------
    epsilon : float
        What is added to the variance.

    Raises
    ------
    ShapeError
        Unless the vectors have an element for each channel.

    Examples
    --------
    >>> BNInfer(0.0)(np.array([[1.0], [3.0]]), [2.0], [1.0], [1.0], [4.0]).asnumpy().tolist()
    [[1.0], [3.0]]
    """

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, scale, _, mean, variance = inputs
        dy = gradients[0]
        dscale, doffset = BNTrainingUpdateGrad(self.epsilon)(dy, x, mean, variance)
        inverse = 1.0 / Sqrt()(variance + self.epsilon)
        dvariance = dscale * scale * inverse * inverse * -0.5
        return BNInferGrad(self.epsilon)(dy, scale, variance), dscale, doffset, -doffset * scale * inverse, dvariance


@register
class BNInferGrad(ChannelWise):
    """The gradient of BNInfer with respect to x: ``dy * scale / sqrt(variance + epsilon)``.

    Parameters
    ----------
    epsilon : float
        What is added to the variance.

    Examples
    --------
    >>> BNInferGrad(0.0)(np.array([[1.0], [3.0]]), [2.0], [4.0]).asnumpy().tolist()
    [[1.0], [3.0]]
    """

    reuses = (0,)

    def __init__(self, epsilon: float = 1e-5) -> None:
        self.epsilon = epsilon

    def __call__(self, dy: Any, scale: Any, variance: Any) -> Any:
        return super().__call__(dy, scale, variance)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.check(*inputs)
        return (inputs[0],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.rule(inputs, (True,))

    def expression(self, *inputs: Term) -> Sequence[Term]:
        dy, scale, variance = self.spread(*inputs)
        return (dy * (scale / deviation(variance, self.epsilon)).astype(dy.dtype),)


@register
class BNTrainingUpdate(Normalise):
    """BNInfer in training: ``mean`` and ``variance`` are those of ``x``, from BNTrainingReduce and BNMoments.

    Its gradient with respect to x is therefore that through the statistics too, in one pass; it gives these none.

    Parameters
    ----------
    epsilon : float
        What is added to the variance.

    Examples
    --------
    >>> BNTrainingUpdate(0.0)(np.array([[1.0], [3.0]]), [2.0], [1.0], [2.0], [1.0]).asnumpy().tolist()
    [[-1.0], [3.0]]
    """

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, scale, _, mean, variance = inputs
        dy = gradients[0]
        dscale, doffset = BNTrainingUpdateGrad(self.epsilon)(dy, x, mean, variance)
        dx = BNTrainingReduceGrad(self.epsilon)(dy, x, dscale, doffset, scale, mean, variance)
        return dx, dscale, doffset, None, None


@register
class BNTrainingUpdateGrad(ChannelWise):
    """The gradients with respect to scale and offset: each channel's sums of ``dy`` times the normalised x, and of dy.

    Where dims other than the channels' are cut, each rank sums its part.

    Parameters
    ----------
    epsilon : float
        What is added to the variance.

    Examples
    --------
    >>> dscale, doffset = BNTrainingUpdateGrad(0.0)(np.array([[1.0], [3.0]]), np.array([[1.0], [3.0]]), [2.0], [1.0])
    >>> dscale.asnumpy().tolist(), doffset.asnumpy().tolist()
    ([2.0], [4.0])
    """

    tensors = (0, 1)

    def __init__(self, epsilon: float = 1e-5) -> None:
        self.epsilon = epsilon

    def __call__(self, dy: Any, x: Any, mean: Any, variance: Any) -> Any:
        return super().__call__(dy, x, mean, variance)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.check(*inputs)
        vector = TensorSpec(inputs[0].shape[1:2], inputs[1].dtype)
        return vector, vector

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.rule(inputs, (False, False))

    def expression(self, *inputs: Term) -> Sequence[Term]:
        dy, x, mean, variance = self.spread(*inputs)
        inverse = (1.0 / deviation(variance, self.epsilon)).astype(x.dtype)
        product = (x - mean.astype(x.dtype)) * inverse * dy
        return tuple(reduce("sum", one, self.summed_dims(x)) for one in (product, dy))


@register
class BNTrainingReduceGrad(ChannelWise):
    """The gradient of batch normalisation with respect to x, in training, from the sums over the whole batch.

    ``scale / deviation * (dy - doffset / count - normalised x * dscale / count)`` for channels of ``count`` elements.

    Parameters
    ----------
    epsilon : float
        What is added to the variance.

    Examples
    --------
    >>> dy, x = np.array([[1.0], [1.0]]), np.array([[1.0], [3.0]])
    >>> BNTrainingReduceGrad(0.0)(dy, x, [0.0], [2.0], [1.0], [2.0], [1.0]).asnumpy().tolist()
    [[0.0], [0.0]]
    """

    tensors = (0, 1)
    reuses = (0,)
    count: int = 0

    def __init__(self, epsilon: float = 1e-5) -> None:
        self.epsilon = epsilon

    def __call__(self, dy: Any, x: Any, dscale: Any, doffset: Any, scale: Any, mean: Any, variance: Any) -> Any:
        return super().__call__(dy, x, dscale, doffset, scale, mean, variance)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.check(*inputs)
        return (inputs[1],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.rule(inputs, (True,))

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> BNTrainingReduceGrad:
        shape = inputs[1].global_shape
        return self.configured(count=int(np.prod(shape)) // max(shape[1], 1))

    def expression(self, *inputs: Term) -> Sequence[Term]:
        dy, x, dscale, doffset, scale, mean, variance = self.spread(*inputs)
        inverse = 1.0 / deviation(variance, self.epsilon)
        slope = scale * inverse
        bend = slope * inverse * dscale * (-1.0 / max(self.count, 1))
        shift = slope * doffset * (-1.0 / max(self.count, 1)) - bend * mean
        return (dy * slope.astype(x.dtype) + (x * bend.astype(x.dtype) + shift.astype(x.dtype)),)
