"""Convolution of images, with its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar, TypeVar

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import check_floating, check_shape
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.box import Box
from mpiparallel.ops.images.convolution.kernels import forward, input_gradient, weight_gradient
from mpiparallel.ops.images.window import Window, WindowsOfImage, image_format, pair
from mpiparallel.ops.images.window_parts import (
    IMAGE_DIMS,
    covered,
    cropped,
    image_of,
    is_cut,
    output_of,
    windows_of_part,
)

Tensors = Sequence[Tensor]
Self = TypeVar("Self", bound="Convolution")


class Convolution(Operator):
    """What the operator and its gradients share: the windows, and the labels of images, weights and output.

    Images, channels, height and width can be cut; in a convolution of several groups channels into sets of groups.
    Where height or width is cut, ``part`` are the windows of this rank.
    """

    kind = "gemm"
    reads_beyond: ClassVar[tuple[int, ...]] = IMAGE_DIMS
    part: WindowsOfImage | None = None

    def __init__(
        self,
        out_channel: int,
        kernel_size: int | tuple[int, int],
        mode: int = 1,
        pad_mode: str = "valid",
        pad: int | tuple[int, int, int, int] = 0,
        stride: int | tuple[int, ...] = 1,
        dilation: int | tuple[int, ...] = 1,
        group: int = 1,
        data_format: str = "NCHW",
    ) -> None:
        if mode != 1:
            raise ConfigurationError(f"{self.name}: mode={mode} is not supported; 1 is a cross-correlation")
        if group < 1 or out_channel < 1 or out_channel % group:
            raise ConfigurationError(f"{self.name}: out_channel={out_channel} does not divide into group={group} parts")
        self.out_channel = out_channel
        self.group = group
        self.data_format = image_format(self.name, data_format)
        padding = tuple(pad) if isinstance(pad, (tuple, list)) else (pad,) * 4
        if len(padding) != 4 or any(type(count) is not int for count in padding):
            raise ConfigurationError(f"{self.name}: pad={pad!r} must be an integer or (top, bottom, left, right)")
        options = {"kernel_size": kernel_size, "stride": stride, "dilation": dilation}
        kernel, steps, spacing = (pair(self.name, name, given) for name, given in options.items())
        self.window = Window(kernel, steps, spacing, pad_mode, padding)

    def like(self, kind: type[Convolution]) -> Convolution:
        """Return the operator of another kind with the same options."""
        operator = kind.__new__(kind)
        options = {name: value for name, value in vars(self).items() if name not in ("strategy", "scope")}
        return operator.configured(**options)

    def output_shape(self, x: TensorSpec, weight: TensorSpec) -> tuple[int, ...]:
        """Return the shape of the convolution of ``x`` with ``weight``; raise ShapeError when they do not fit."""
        check_floating(x=x, weight=weight)
        if len(x.shape) != 4 or x.shape[1] % self.group:
            raise ShapeError(
                f"x has shape {x.shape}; it must be (images, channels, height, width), channels a multiple of "
                f"group={self.group}"
            )
        check_shape((self.out_channel, x.shape[1] // self.group, *self.window.kernel), weight=weight)
        return (x.shape[0], self.out_channel, *self.window.over(x.shape[2:]).output)

    @property
    def labels(self) -> tuple[Labels, Labels, Labels]:
        """The labels of x, of the weights and of the output."""
        if self.group > 1:
            return ("n", "g", "h", "w"), ("g", None, None, None), ("n", "g", "h", "w")
        return ("n", "i", "h", "w"), ("o", "i", None, None), ("n", "o", "h", "w")

    def product(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> tuple[TensorSpec, TensorSpec]:
        """Return the images that the convolution gives, and its weights, among the tensors of an operator."""
        return outputs[0], inputs[1]

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        images, weight = self.product(inputs, outputs)
        return replace(super().cost(inputs, outputs), operations=2 * images.size * prod(weight.shape[1:]))

    def rule(self, inputs: tuple[Labels, ...], output: Labels) -> Equation:
        """Return the equation of these labels."""
        divisors = {"g": self.group} if self.group > 1 else {}
        return Equation(inputs, (output,), batch="n", divisors=divisors)

    def of_part(self: Self, x: Part, image: Box, weight: Part, y: Part) -> Self:
        """Return the operator that has ``image`` for a part of images like ``x``, and these parts of the others."""
        operator = self
        if weight.shape[0] != weight.global_shape[0] and self.group > 1:
            operator = operator.configured(group=self.group * weight.shape[0] // weight.global_shape[0])
        if is_cut(x) or is_cut(y):
            windows = windows_of_part(self.windows(x.global_shape), image, y.box)
            operator = operator.configured(part=windows)
        return operator

    def windows(self, shape: Sequence[int]) -> WindowsOfImage:
        """Return the windows of images of this shape (n, c, h, w)."""
        return self.window.over(shape[2:]) if self.part is None else self.part


@register
class Conv2D(Convolution):
    """The cross-correlation of images ``x`` (n, c, h, w) with ``weight`` (out_channel, c / group, kernel, kernel).

    A strategy may cut images, output channels, input channels, where the output is partial, and height and width of
    ``x``, where ranks exchange the rows and columns that their windows reach over a cut; kernels stay whole. In a
    convolution of several groups the channels of ``x`` and of ``weight`` are cut alike, into a number of parts that
    divides ``group``.

    Parameters
    ----------
    out_channel : int
        Output channels.
    kernel_size : int or tuple of int
        Height and width of the kernels, in pixels.
    mode : int
        1, MindSpore's number of the cross-correlation.
    pad_mode : {"valid", "same", "pad"}
        Whether windows lie within the image, or there is ``ceil(h / stride)`` by ``ceil(w / stride)`` output, or
        ``pad`` counts.
    pad : int or tuple of int
        Zeros at the top, bottom, left and right.
    stride, dilation : int or tuple of int
        From a window to the next, and from a pixel of a window to the next; of four numbers the last two.
    group : int
        Channels are taken in as many groups, each on its own.
    data_format : str
        "NCHW".

    Raises
    ------
    ConfigurationError
        For what is not offered or does not fit together.
    ShapeError
        When images and weights do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> Conv2D(5, 3, pad_mode="same", stride=2)(np.ones((2, 4, 7, 6)), np.ones((5, 4, 3, 3))).shape
    (2, 5, 4, 3)
    """

    def __call__(self, x: Any, weight: Any) -> Any:
        return super().__call__(x, weight)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        x, weight = inputs
        return (TensorSpec(self.output_shape(x, weight), x.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        x, weight, y = self.labels
        return self.rule((x, weight), y)

    def reads(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> tuple[Box, ...]:
        x, weight = inputs
        return image_of(self.windows(x.global_shape), outputs[0].box, x.box), weight.box

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Conv2D:
        x, weight = inputs
        return self.of_part(x, x.box, weight, outputs[0])

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        x, weight = inputs
        return forward(runtime, self.windows(x.shape), self.group, x, weight, outputs[0])

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, weight = inputs
        dy = gradients[0]
        return self.like(Conv2DBackpropInput)(dy, weight, x), self.like(Conv2DBackpropFilter)(dy, x, weight)


@register
class Conv2DBackpropInput(Convolution):
    """The gradient of Conv2D with respect to its images; ``x`` gives shape and layout only.

    Where output channels are cut, each rank computes a term.

    Parameters
    ----------
    out_channel, kernel_size, mode, pad_mode, pad, stride, dilation, group, data_format
        As of Conv2D.

    Examples
    --------
    >>> import numpy as np
    >>> Conv2DBackpropInput(1, 2)(np.ones((1, 1, 1, 1)), np.ones((1, 1, 2, 2)), np.zeros((1, 1, 2, 2))).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """

    unread = (2,)
    boxes: tuple[Box, Box] | None = None
    """The images that the windows reach, and those that are wanted, where not all are reached."""

    def __call__(self, dy: Any, weight: Any, x: Any) -> Any:
        return super().__call__(dy, weight, x)

    def product(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> tuple[TensorSpec, TensorSpec]:
        return inputs[0], inputs[1]

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        dy, weight, x = inputs
        check_shape(self.output_shape(x, weight), dy=dy)
        return (x,)

    def equation(self, *inputs: TensorSpec) -> Equation:
        x, weight, y = self.labels
        return self.rule((y, weight, x), x)

    def reads(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> tuple[Box, ...]:
        (dy, weight, x), dx = inputs, outputs[0]
        return output_of(self.windows(dx.global_shape), dx.box, dy.box), weight.box, x.box

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Conv2DBackpropInput:
        (dy, weight, _), dx = inputs, outputs[0]
        image = covered(self.windows(dx.global_shape), dy.box, dx.box)
        operator = self.of_part(dx, image, weight, dy)
        return operator if image == dx.box else operator.configured(boxes=(image, dx.box))

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        (dy, weight, _), dx = inputs, outputs[0]

        def bind(target: Array) -> Kernel:
            return input_gradient(runtime, self.windows(target.shape), self.group, dy, weight, target)

        return bind(dx) if self.boxes is None else cropped(runtime, *self.boxes, dx, bind)


@register
class Conv2DBackpropFilter(Convolution):
    """The gradient of Conv2D with respect to its weights; ``weight`` gives shape and layout only.

    Where images, height or width are cut, each rank computes a term. Images are taken apart into columns again rather
    than kept so.

    Parameters
    ----------
    out_channel, kernel_size, mode, pad_mode, pad, stride, dilation, group, data_format
        As of Conv2D.

    Examples
    --------
    >>> import numpy as np
    >>> x, dy, weight = np.full((1, 1, 2, 2), 3.0), np.ones((1, 1, 1, 1)), np.zeros((1, 1, 2, 2))
    >>> Conv2DBackpropFilter(1, 2)(dy, x, weight).tolist()
    [[[[3.0, 3.0], [3.0, 3.0]]]]
    """

    unread = (2,)

    def __call__(self, dy: Any, x: Any, weight: Any) -> Any:
        return super().__call__(dy, x, weight)

    def product(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> tuple[TensorSpec, TensorSpec]:
        return inputs[0], outputs[0]

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        dy, x, weight = inputs
        check_shape(self.output_shape(x, weight), dy=dy)
        return (weight,)

    def equation(self, *inputs: TensorSpec) -> Equation:
        x, weight, y = self.labels
        return self.rule((y, x, weight), weight)

    def reads(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> tuple[Box, ...]:
        dy, x, weight = inputs
        return dy.box, image_of(self.windows(x.global_shape), dy.box, x.box), weight.box

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Conv2DBackpropFilter:
        dy, x, _ = inputs
        return self.of_part(x, x.box, outputs[0], dy)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        dy, x, _ = inputs
        return weight_gradient(runtime, self.windows(x.shape), self.group, dy, x, outputs[0])
