"""Normalisation by channel from given statistics, in training and in inference, with its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator import Kernel
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import Part, TensorSpec
from mpiparallel.ops.batch_statistics import ChannelWise, set_line
from mpiparallel.ops.channel_blocks import ChannelBlocks
from mpiparallel.ops.elementwise import Sqrt

Tensors = Sequence[Tensor]

_DOUBLE = np.dtype(np.float64)


class Normalise(ChannelWise):
    """What training and inference share: ``(x - mean) / sqrt(variance + epsilon) * scale + offset`` by channel."""

    reuses = (0,)

    def __init__(self, epsilon: float = 1e-5) -> None:
        self.epsilon = epsilon

    def __call__(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        return super().__call__(x, scale, offset, mean, variance)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.check(*inputs)
        return (inputs[0],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return self.rule(inputs, (True,))

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        x, scale, offset, mean, variance = inputs
        blocks = ChannelBlocks(runtime, [x, outputs[0]])

        def line(factor: Array, shift: Array) -> None:
            slope = scale / runtime.array_module.sqrt(variance.astype(_DOUBLE) + self.epsilon)
            set_line(factor, shift, slope, offset - mean * slope)

        return blocks.kernel_of_lines(line)


@register
class BNInfer(Normalise):
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset`` by channel of ``x`` (n, c, ...), statistics given.

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
    """The gradient of BNInfer with respect to x: ``dy * scale / sqrt(variance + epsilon)``."""

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

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (dy, scale, variance) = runtime.array_module, inputs
        blocks = ChannelBlocks(runtime, [dy, outputs[0]])
        return blocks.kernel_of_lines(
            lambda factor, shift: set_line(factor, shift, scale / xp.sqrt(variance + self.epsilon), 0)
        )


@register
class BNTrainingUpdate(Normalise):
    """BNInfer in training: ``mean`` and ``variance`` are those of ``x``, from BNTrainingReduce and BNMoments.

    Its gradient with respect to x is therefore that through the statistics too, in one pass; it gives these none.
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

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (dy, x, mean, variance), (dscale, doffset) = runtime.array_module, inputs, outputs
        middle = xp.empty(mean.shape, x.dtype)
        blocks = ChannelBlocks(runtime, [dy, x], [dscale, doffset], [middle])

        def add(dy: Array, x: Array, dscale: Array, doffset: Array, middle: Array) -> None:
            product = runtime.scratch(tuple(x.shape), x.dtype, 0)
            blocks.add_sums(dy, doffset)
            xp.subtract(x, middle, out=product)
            xp.multiply(product, dy, out=product)
            blocks.add_sums(product, dscale)

        sums = blocks.kernel_of_sums(add)

        def run() -> None:
            middle[...] = mean
            sums()
            dscale[...] = dscale / xp.sqrt(variance + self.epsilon)

        return run


@register
class BNTrainingReduceGrad(ChannelWise):
    """The gradient of batch normalisation with respect to x, in training, from the sums over the whole batch.

    ``scale / deviation * (dy - doffset / count - normalised x * dscale / count)`` for channels of ``count`` elements.
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

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        dy, x, dscale, doffset, scale, mean, variance = inputs
        xp, dx = runtime.array_module, outputs[0]
        of_dy, of_x, shift = (xp.empty(scale.shape, dx.dtype) for _ in range(3))
        blocks = ChannelBlocks(runtime, [dy, x, dx], [], [of_dy, of_x, shift])

        def combine(dy: Array, x: Array, dx: Array, of_dy: Array, of_x: Array, shift: Array) -> None:
            product = runtime.scratch(tuple(x.shape), dx.dtype, 0)
            xp.multiply(x, of_x, out=product)
            xp.add(product, shift, out=product)
            xp.multiply(dy, of_dy, out=dx)
            xp.add(dx, product, out=dx)

        pass_over = blocks.kernel(combine)

        def run() -> None:
            inverse = 1.0 / xp.sqrt(variance.astype(_DOUBLE) + self.epsilon)
            slope = scale * inverse
            bend = slope * inverse * dscale / -self.count
            set_line(of_dy, of_x, slope, bend)
            shift[...] = slope * doffset / -self.count - bend * mean
            pass_over()

        return run
