"""What poolings and their gradients share: windows over images, or over this rank's part of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import ClassVar, TypeVar

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.blocks import block_size, row_blocks
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import check_floating
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.layout.box import Box
from mpiparallel.ops.images.window import Window, WindowsOfImage, image_format, pair
from mpiparallel.ops.images.window_parts import IMAGE_DIMS, cropped, image_of, is_cut, output_of, windows_of_part

Pools = TypeVar("Pools", bound="PoolingOfImages")
Spreads = TypeVar("Spreads", bound="PoolingGradient")


class Pooling(Operator):
    """What the operators and their gradients share: the windows, and blocks of images.

    Every dim can be cut. Where height or width is, ``part`` are the windows of this rank.
    """

    reads_beyond: ClassVar[tuple[int, ...]] = IMAGE_DIMS
    part: WindowsOfImage | None = None

    def __init__(
        self,
        kernel_size: int | tuple[int, ...] = 1,
        strides: int | tuple[int, ...] = 1,
        pad_mode: str = "valid",
        data_format: str = "NCHW",
    ) -> None:
        if pad_mode.lower() not in ("valid", "same"):
            raise ConfigurationError(f"{self.name}: pad_mode {pad_mode!r} is neither 'valid' nor 'same'")
        self.data_format = image_format(self.name, data_format)
        kernel, steps = pair(self.name, "kernel_size", kernel_size), pair(self.name, "strides", strides)
        self.window = Window(kernel, steps, (1, 1), pad_mode.lower())

    def like(self, kind: type[Pooling]) -> Pooling:
        """Return the operator of another kind with the same windows."""
        operator = kind.__new__(kind)
        return operator.configured(data_format=self.data_format, window=self.window)

    def pooled(self, x: TensorSpec) -> TensorSpec:
        """Return the spec of the output; raise ShapeError when ``x`` is no images or they are too small."""
        check_floating(x=x)
        if len(x.shape) != 4:
            raise ShapeError(f"x has shape {x.shape}; it must be (images, channels, height, width)")
        return TensorSpec((*x.shape[:2], *self.window.over(x.shape[2:]).output), x.dtype)

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels: Labels = ("n", "c", "h", "w")
        return Equation((labels,) * len(inputs), (labels,), batch="n")

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        windows = min(spec.size for spec in (*inputs, *outputs))
        return replace(super().cost(inputs, outputs), operations=windows * prod(self.window.kernel))

    def windows(self, shape: Sequence[int]) -> WindowsOfImage:
        """Return the windows of images of this shape (n, c, h, w)."""
        return self.window.over(shape[2:]) if self.part is None else self.part

    def passes(self, runtime: Runtime, arrays: Sequence[Array], windows: WindowsOfImage) -> Kernel:
        """Return the kernel that calls ``pool`` on blocks of arrays whose first two dims agree; the last is filled."""
        if any(array.size == 0 for array in arrays):
            return partial(arrays[-1].fill, 0)
        blocks = row_blocks(arrays, 2, block_size(runtime))
        bound = [partial(self.pool, runtime, windows, *block) for block in blocks]

        def run() -> None:
            for block in bound:
                block()

        return run

    def pool(self, runtime: Runtime, windows: WindowsOfImage, *arrays: Array) -> None:
        """Compute one block of images."""
        raise NotImplementedError(self.name)


class PoolingOfImages(Pooling):
    """What pools images ``x``: it reads what its windows touch."""

    def reads(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> tuple[Box, ...]:
        x = inputs[0]
        return (image_of(self.windows(x.global_shape), outputs[0].box, x.box),)

    def local(self: Pools, inputs: Sequence[Part], outputs: Sequence[Part]) -> Pools:
        x, y = inputs[0], outputs[0]
        if not is_cut(x) and not is_cut(y):
            return self
        return self.configured(part=windows_of_part(self.windows(x.global_shape), x.box, y.box))


class PoolingGradient(Pooling):
    """What computes the gradient of images ``x``, its first input, from gradients of windows, its last.

    Where height or width is cut, ``boxes`` are the images that all windows touch which touch the wanted part, and that
    part. The gradient is computed for the former, so whole windows decide what becomes of it.
    """

    boxes: tuple[Box, Box] | None = None

    def reads(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> tuple[Box, ...]:
        (x, *others), dx = inputs, outputs[0]
        windows = self.windows(dx.global_shape)
        read = [output_of(windows, dx.box, part.box) for part in others]
        return (image_of(windows, read[-1], x.box), *read)

    def local(self: Spreads, inputs: Sequence[Part], outputs: Sequence[Part]) -> Spreads:
        (x, *_, dy), dx = inputs, outputs[0]
        if not is_cut(dy) and not is_cut(dx):
            return self
        windows = windows_of_part(self.windows(dx.global_shape), x.box, dy.box)
        return self.configured(part=windows, boxes=(x.box, dx.box))

    def into(self, runtime: Runtime, dx: Array, bind: Callable[[Array], Kernel]) -> Kernel:
        """Return what fills ``dx`` by the kernel that ``bind`` makes for the images of ``part``."""
        return bind(dx) if self.boxes is None else cropped(runtime, *self.boxes, dx, bind)
