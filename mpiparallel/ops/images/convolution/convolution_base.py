"""What a convolution and its gradients share: options, labels, windows, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar, TypeVar

from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.input_checks import check_floating, check_shape
from mpiparallel.graph.operator import Operator
from mpiparallel.layout.box import Box
from mpiparallel.ops.images.window import Window, WindowsOfImage, image_format, pair
from mpiparallel.ops.images.window_parts import IMAGE_DIMS, is_cut, windows_of_part

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
        products = images.size * prod(weight.shape[1:])
        gathered = products // max(self.lines(weight), 1) * images.dtype.itemsize
        return replace(super().cost(inputs, outputs), operations=2 * products, bytes_gathered=gathered)

    def lines(self, weight: TensorSpec) -> int:
        """Return the channels of a group that all are multiplied with the same gathered windows."""
        return weight.shape[0] // self.group

    def kernel_names(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> tuple[str, ...]:
        images, _ = self.product(inputs, outputs)
        # With one window to an image it is a product of matrices.
        return () if images.shape[2:] == (1, 1) and self.group == 1 else super().kernel_names(inputs, outputs)

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
