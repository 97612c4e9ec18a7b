"""Convolution of images, with its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import check_shape
from mpiparallel.graph.operator import Kernel, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.box import Box
from mpiparallel.ops.images.convolution.convolution_base import Convolution
from mpiparallel.ops.images.window_parts import covered, cropped, image_of, output_of

Tensors = Sequence[Tensor]


@register
class Conv2D(Convolution):
    """The cross-correlation of images ``x`` (n, c, h, w) with ``weight`` (out_channel, c / group, kernel, kernel).

    A strategy may cut images, output channels, input channels, and height and width of ``x``; kernels stay whole. If
    input channels are cut, the output is partial. If height or width is cut, ranks exchange the rows and columns that
    their windows reach over a cut. In a convolution of several groups the channels of ``x`` and of ``weight`` are cut
    alike, into a number of parts that divides ``group``.

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
        from mpiparallel.ops.images.convolution.kernels import forward  # slow to load: few networks have images

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

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        return replace(super().cost(inputs, outputs), bytes_turned=inputs[1].byte_count)

    def lines(self, weight: TensorSpec) -> int:
        return weight.shape[1]

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
        from mpiparallel.ops.images.convolution.kernels import input_gradient

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
        from mpiparallel.ops.images.convolution.kernels import weight_gradient

        dy, x, _ = inputs
        return weight_gradient(runtime, self.windows(x.shape), self.group, dy, x, outputs[0])
