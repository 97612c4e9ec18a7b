"""Convolution of images, with its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.ops.columns import Columns, in_order
from mpiparallel.ops.input_checks import check_floating, check_shape
from mpiparallel.ops.window import Window, image_format, pair

Tensors = Sequence[Tensor]

_COLUMNS = {"cpu": 512}
"""Windows that one product takes at least: fewer leave it waiting for memory. An accelerator takes many more."""


class Convolution(Operator):
    """What the operator and its gradients share: the windows, and the labels of images, weights and output.

    Images and channels can be cut, height and width stay whole; in a convolution of several groups channels do too.
    """

    kind = "gemm"

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
        padding = (pad,) * 4 if isinstance(pad, int) else tuple(pad)
        if len(padding) != 4:
            raise ConfigurationError(f"{self.name}: pad={pad!r} must be an integer or (top, bottom, left, right)")
        kernel = pair("kernel_size", kernel_size)
        self.window = Window(kernel, pair("stride", stride), pair("dilation", dilation), pad_mode, padding)

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
            return ("n", None, None, None), (None,) * 4, ("n", None, None, None)
        return ("n", "i", None, None), ("o", "i", None, None), ("n", "o", None, None)

    def columns(self, runtime: Runtime, x: Array, weight: Array) -> Columns:
        """Return how images of the shape of ``x`` are taken apart into columns."""
        windows = self.window.over(x.shape[2:])
        wanted = _COLUMNS.get(runtime.backend.name, 1 << 16)
        return Columns(
            runtime, self.group, windows, max(wanted // prod(windows.output), 1), x.shape[1], weight.shape[0]
        )


@register
class Conv2D(Convolution):
    """The cross-correlation of images ``x`` (n, c, h, w) with ``weight`` (out_channel, c / group, kernel, kernel).

    ``pad_mode`` is ``valid``, ``same`` or ``pad``; then ``pad`` counts the zeros (top, bottom, left, right). A strategy
    may cut images, output channels and input channels, where the output is partial; height and width stay whole, and
    so do all channels when there is more than one ``group``.

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
        return Equation((x, weight), (y,), batch="n")

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        (x, weight), y, xp = inputs, outputs[0], runtime.array_module
        if x.size == 0 or weight.size == 0:
            return partial(y.fill, 0)
        columns = self.columns(runtime, x, weight)
        order, ordered = in_order(runtime, weight, 0)
        matrices = columns.weights(ordered)
        steps = [order] if order else []
        if columns.are_elements and x.flags.c_contiguous:
            shape = (len(x), self.group, -1, prod(columns.windows.output))
            steps.append(partial(xp.matmul, matrices, x.reshape(shape), out=y.reshape(shape)))
        else:
            for rows in columns.blocks(len(x)):
                steps += self._block(columns, matrices, x, y, rows)
        return partial(_run_all, steps)

    def _block(self, columns: Columns, matrices: Array, x: Array, y: Array, rows: slice) -> list[Kernel]:
        xp, images = columns.runtime.array_module, rows.stop - rows.start
        fill, filled = columns.filling(x, rows, 1)
        if images == 1:
            target = y[rows].reshape(self.group, columns.outputs // self.group, prod(y.shape[2:]))
            return [fill, partial(xp.matmul, matrices, filled, out=target)]
        shown, product = columns.scratch_outputs(images, y.dtype, 3)
        return [fill, partial(xp.matmul, matrices, filled, out=product), partial(xp.copyto, y[rows], shown)]

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, weight = inputs
        dy = gradients[0]
        return self.like(Conv2DBackpropInput)(dy, weight, x), self.like(Conv2DBackpropFilter)(dy, x, weight)


def _run_all(steps: Sequence[Kernel]) -> None:
    for step in steps:
        step()


@register
class Conv2DBackpropInput(Convolution):
    """The gradient of Conv2D with respect to its images; ``x`` gives shape and layout only.

    Where output channels are cut, each rank computes a term.
    """

    def __call__(self, dy: Any, weight: Any, x: Any) -> Any:
        return super().__call__(dy, weight, x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        dy, weight, x = inputs
        check_shape(self.output_shape(x, weight), dy=dy)
        return (x,)

    def equation(self, *inputs: TensorSpec) -> Equation:
        x, weight, y = self.labels
        return Equation((y, weight, x), (x,), batch="n")

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        (dy, weight, _), dx, xp = inputs, outputs[0], runtime.array_module
        if dy.size == 0 or weight.size == 0:
            return partial(dx.fill, 0)
        columns = self.columns(runtime, dx, weight)
        order, ordered = in_order(runtime, weight, 0)
        matrices = columns.weights(ordered).swapaxes(1, 2)
        steps = [order] if order else []
        if columns.are_elements and dy.flags.c_contiguous:
            shape = (len(dy), self.group, -1, prod(columns.windows.output))
            steps.append(partial(xp.matmul, matrices, dy.reshape(shape), out=dx.reshape(shape)))
        else:
            for rows in columns.blocks(len(dx)):
                steps += self._block(columns, matrices, dy, dx, rows)
        return partial(_run_all, steps)

    def _block(self, columns: Columns, matrices: Array, dy: Array, dx: Array, rows: slice) -> list[Kernel]:
        xp, images, windows = columns.runtime.array_module, rows.stop - rows.start, columns.windows
        take, taken = columns.taking(dy, rows, 1)
        array, product = columns.scratch_columns(images, dx.dtype, 2)
        target = dx[rows]
        padded = columns.padded(images, dx.dtype, 3) if windows.has_padding else target
        height, width = self.window.kernel
        terms = [array[:, row, column].swapaxes(0, 1) for row in range(height) for column in range(width)]
        taps = list(zip(windows.taps(padded), terms, strict=True))

        def add() -> None:
            padded.fill(0)
            for tap, term in taps:
                xp.add(tap, term, out=tap)
            if windows.has_padding:
                xp.copyto(target, windows.interior(padded))

        return [*([take] if take else []), partial(xp.matmul, matrices, taken, out=product), add]


@register
class Conv2DBackpropFilter(Convolution):
    """The gradient of Conv2D with respect to its weights; ``weight`` gives shape and layout only.

    Where images are cut, each rank computes a term. Images are taken apart into columns again rather than kept so.
    """

    def __call__(self, dy: Any, x: Any, weight: Any) -> Any:
        return super().__call__(dy, x, weight)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        dy, x, weight = inputs
        check_shape(self.output_shape(x, weight), dy=dy)
        return (weight,)

    def equation(self, *inputs: TensorSpec) -> Equation:
        x, weight, y = self.labels
        return Equation((y, x, weight), (weight,), batch="n")

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        (dy, x, _), dw, xp = inputs, outputs[0], runtime.array_module
        if dy.size == 0 or x.size == 0:
            return partial(dw.fill, 0)
        columns = self.columns(runtime, x, dw)
        matrices = columns.weights(dw)
        term = runtime.scratch(tuple(matrices.shape), dw.dtype, 0)
        steps: list[Kernel] = []
        for rows in columns.blocks(len(x)):
            take, taken = columns.taking(dy, rows, 1)
            fill, filled = columns.filling(x, rows, 2)
            target = term if rows.start else matrices
            steps += [*([take] if take else []), fill, partial(xp.matmul, taken, filled.swapaxes(1, 2), out=target)]
            if rows.start:
                steps.append(partial(xp.add, matrices, term, out=matrices))
        return partial(_run_all, steps)
