"""Pooling of images to a given height and width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import is_narrow, wide_dtype
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_checks import check_floating
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.matrix_product import BatchMatMul
from mpiparallel.ops.shapes.reshaping import BroadcastTo

Tensors = Sequence[Tensor]


def intervals(extent: int, count: int) -> list[slice]:
    """Return ``count`` pieces that cover a dim of ``extent`` elements; they overlap where it does not divide.

    >>> intervals(5, 2)
    [slice(0, 3, None), slice(2, 5, None)]
    """
    return [slice(extent * place // count, -(-extent * (place + 1) // count)) for place in range(count)]


@register
class AdaptiveAvgPool2D(Operator):
    """Images (n, c, h, w) averaged to ``output_size``: a number, or (height, width) where None keeps the extent.

    A strategy may cut images and channels.

    Parameters
    ----------
    output_size : int or tuple of int
        Of images, in pixels.

    Raises
    ------
    ConfigurationError
        When a size is no number of at least 1.

    Examples
    --------
    >>> AdaptiveAvgPool2D(1)(np.arange(8.0).reshape(1, 2, 2, 2)).asnumpy().tolist()
    [[[[1.5]], [[5.5]]]]
    """

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        pair = (output_size,) * 2 if output_size is None or isinstance(output_size, int) else tuple(output_size)
        if len(pair) != 2 or any(extent is not None and extent < 1 for extent in pair):
            raise ConfigurationError(f"{self.name}: output_size {output_size!r} must be a number or (height, width)")
        self.output_size = pair

    def __call__(self, input_x: Any) -> Any:
        return super().__call__(input_x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        x = inputs[0]
        check_floating(x=x)
        if len(x.shape) != 4 or 0 in x.shape[2:]:
            raise ShapeError(f"x has shape {x.shape}; it must be (images, channels, height, width)")
        return (TensorSpec((*x.shape[:2], *self.pooled(x.shape[2:])), x.dtype),)

    def pooled(self, image: Sequence[int]) -> tuple[int, ...]:
        """Return height and width of the output for images of these."""
        return tuple(
            extent if wanted is None else wanted for extent, wanted in zip(image, self.output_size, strict=True)
        )

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels: Labels = ("n", "c", None, None)
        return Equation((labels,), (labels,), batch="n")

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        x, target = inputs[0], outputs[0]
        xp = runtime.array_module
        rows, columns = (intervals(n, count) for n, count in zip(x.shape[2:], target.shape[2:], strict=True))
        windows = [
            (x[:, :, height, width], target[:, :, row, column])
            for (row, height), (column, width) in product(enumerate(rows), enumerate(columns))
        ]

        wide, is_short = wide_dtype(x.dtype), is_narrow(x.dtype)

        def run() -> None:
            for window, mean in windows:
                total = xp.add.reduce(window, axis=(2, 3), dtype=wide, out=None if is_short else mean)
                xp.multiply(total, 1.0 / (window.shape[2] * window.shape[3]), out=mean, casting="unsafe")

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, dy = inputs[0], gradients[0]
        height, width = x.shape[2:]
        rows, columns = dy.shape[2:]
        if rows == columns == 1:
            return (BroadcastTo(x.shape)(dy / float(height * width)),)
        down, across = _means(height, rows, x.dtype), _means(width, columns, x.dtype)
        return (BatchMatMul()(down.T, BatchMatMul()(dy, across)),)


def _means(extent: int, count: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Return the (count, extent) matrix that averages a dim."""
    matrix = np.zeros((count, extent), dtype)
    for row, piece in zip(matrix, intervals(extent, count), strict=True):
        row[piece] = 1.0 / (piece.stop - piece.start)
    return matrix
