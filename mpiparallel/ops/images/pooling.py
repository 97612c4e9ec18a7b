"""Pooling of images: the largest element or the mean of each window, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import is_narrow, wide_dtype
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import check_shape
from mpiparallel.graph.operator import Kernel, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.images.pooling_windows import Pooling, PoolingGradient, PoolingOfImages
from mpiparallel.ops.images.window import WindowsOfImage

Tensors = Sequence[Tensor]
Averages = TypeVar("Averages", bound="Averaging")


def _padded(runtime: Runtime, windows: WindowsOfImage, x: Array, value: float, slot: int) -> Array:
    """Return images with ``value`` around them: themselves where there is no padding."""
    if not windows.has_padding:
        return x
    padded = runtime.scratch((*x.shape[:-2], *windows.padded), x.dtype, slot)
    padded.fill(value)
    runtime.array_module.copyto(windows.interior(padded), x)
    return padded


@register
class MaxPool(PoolingOfImages):
    """The largest element of each window of images (n, c, h, w).

    A strategy may cut every dim; ranks exchange what windows reach over a cut of height or width.

    Parameters
    ----------
    kernel_size, strides : int or tuple of int
        Height and width of a window, and from one to the next, in pixels.
    pad_mode : {"valid", "same"}
        Whether windows lie within the image, or there is ``ceil(h / stride)`` by ``ceil(w / stride)`` output.
    data_format : str
        "NCHW".

    Raises
    ------
    ConfigurationError
        For another ``pad_mode`` or ``data_format``.

    Examples
    --------
    >>> MaxPool(2, 2)(np.arange(16.0).reshape(1, 1, 4, 4)).asnumpy().tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (self.pooled(inputs[0]),)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return self.passes(runtime, [inputs[0], outputs[0]], self.windows(inputs[0].shape))

    def pool(self, runtime: Runtime, windows: WindowsOfImage, *arrays: Array) -> None:
        x, target = arrays
        xp = runtime.array_module
        first, *others = windows.taps(_padded(runtime, windows, x, -np.inf, 0))
        xp.copyto(target, first)
        for tap in others:
            xp.maximum(target, tap, out=target)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (self.like(MaxPoolGrad)(inputs[0], outputs[0], gradients[0]),)


@register
class MaxPoolGrad(PoolingGradient):
    """The gradient of MaxPool: ``dy`` at the first place in each window of ``x`` that holds its maximum ``y``.

    Parameters
    ----------
    kernel_size, strides, pad_mode, data_format
        As of MaxPool.

    Examples
    --------
    >>> MaxPoolGrad(2, 2)([[[[1.0, 4.0], [3.0, 2.0]]]], [[[[4.0]]]], [[[[5.0]]]]).asnumpy().tolist()
    [[[[0.0, 5.0], [0.0, 0.0]]]]
    """

    def __call__(self, x: Any, y: Any, dy: Any) -> Any:
        return super().__call__(x, y, dy)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        x, y, dy = inputs
        check_shape(self.pooled(x).shape, y=y, dy=dy)
        return (x,)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        def bind(dx: Array) -> Kernel:
            return self.passes(runtime, [*inputs, dx], self.windows(dx.shape))

        return self.into(runtime, outputs[0], bind)

    def pool(self, runtime: Runtime, windows: WindowsOfImage, *arrays: Array) -> None:
        x, y, dy, dx = arrays
        xp = runtime.array_module
        padded = _padded(runtime, windows, x, -np.inf, 0)
        target = runtime.scratch(tuple(padded.shape), dx.dtype, 1) if windows.has_padding else dx
        term = runtime.scratch(tuple(dy.shape), dx.dtype, 2)
        chosen, free = (runtime.scratch(tuple(dy.shape), np.bool_, slot) for slot in (3, 4))
        target.fill(0)
        free.fill(True)
        for tap, place in zip(windows.taps(padded), windows.taps(target), strict=True):
            xp.equal(tap, y, out=chosen)
            xp.logical_and(chosen, free, out=chosen)
            xp.not_equal(free, chosen, out=free)
            xp.copyto(term, chosen)
            xp.multiply(dy, term, out=term)
            xp.add(place, term, out=place)
        if windows.has_padding:
            xp.copyto(dx, windows.interior(target))


class Averaging(Pooling):
    """What the mean and its gradient share: ``counts``, how many elements of each window are not padding."""

    counts: Array = None

    def counting(self: Averages, runtime: Runtime, like: Array) -> Averages:
        """Return the operator with its counts, for images of the extents of ``like``."""
        if like.size == 0:
            return self
        return self.configured(counts=_counts(runtime, self.windows(like.shape), wide_dtype(like.dtype)))


def _counts(runtime: Runtime, windows: WindowsOfImage, dtype: Any) -> Array:
    """Return how many elements of each window are not padding."""
    xp = runtime.array_module
    counts = xp.zeros(windows.output, dtype)
    for tap in windows.taps(_padded(runtime, windows, xp.ones(windows.image, dtype), 0, 1)):
        counts += tap
    return counts


@register
class AvgPool(PoolingOfImages, Averaging):
    """The mean of each window of images (n, c, h, w), over the elements in it that are not padding.

    A strategy may cut every dim; ranks exchange what windows reach over a cut of height or width.

    Parameters
    ----------
    kernel_size, strides : int or tuple of int
        Height and width of a window, and from one to the next, in pixels.
    pad_mode : {"valid", "same"}
        Whether windows lie within the image, or there is ``ceil(h / stride)`` by ``ceil(w / stride)`` output.
    data_format : str
        "NCHW".

    Raises
    ------
    ConfigurationError
        For another ``pad_mode`` or ``data_format``.

    Examples
    --------
    >>> AvgPool(2, 2)(np.arange(16.0).reshape(1, 1, 4, 4)).asnumpy().tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (self.pooled(inputs[0]),)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        windows = self.windows(inputs[0].shape)
        return self.counting(runtime, inputs[0]).passes(runtime, [inputs[0], outputs[0]], windows)

    def pool(self, runtime: Runtime, windows: WindowsOfImage, *arrays: Array) -> None:
        x, target = arrays
        xp = runtime.array_module
        total = runtime.scratch(tuple(target.shape), np.float32, 2) if is_narrow(target.dtype) else target
        total.fill(0)
        for tap in windows.taps(_padded(runtime, windows, x, 0, 0)):
            xp.add(total, tap, out=total)
        xp.divide(total, self.counts, out=target, casting="unsafe")

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (self.like(AvgPoolGrad)(inputs[0], gradients[0]),)


@register
class AvgPoolGrad(PoolingGradient, Averaging):
    """The gradient of AvgPool: ``dy`` spread evenly over each window; ``x`` gives shape and layout only.

    Parameters
    ----------
    kernel_size, strides, pad_mode, data_format
        As of AvgPool.

    Examples
    --------
    >>> AvgPoolGrad(2, 2)([[[[1.0, 4.0], [3.0, 2.0]]]], [[[[4.0]]]]).asnumpy().tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """

    unread = (0,)

    def __call__(self, x: Any, dy: Any) -> Any:
        return super().__call__(x, dy)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        x, dy = inputs
        check_shape(self.pooled(x).shape, dy=dy)
        return (x,)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        def bind(dx: Array) -> Kernel:
            return self.counting(runtime, dx).passes(runtime, [inputs[1], dx], self.windows(dx.shape))

        return self.into(runtime, outputs[0], bind)

    def pool(self, runtime: Runtime, windows: WindowsOfImage, *arrays: Array) -> None:
        dy, dx = arrays
        xp = runtime.array_module
        wide = wide_dtype(dx.dtype)
        share = runtime.scratch(tuple(dy.shape), wide, 2)
        xp.divide(dy, self.counts, out=share)
        shape = (*dx.shape[:-2], *windows.padded)
        is_apart = windows.has_padding or is_narrow(dx.dtype)
        target = runtime.scratch(shape, wide, 0) if is_apart else dx
        target.fill(0)
        for place in windows.taps(target):
            xp.add(place, share, out=place)
        if is_apart:
            xp.copyto(dx, windows.interior(target), casting="unsafe")
