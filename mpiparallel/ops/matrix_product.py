"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import common_dtype
from mpiparallel.errors import ShapeError
from mpiparallel.graph.broadcasting import broadcast_shape, sum_to
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.product_kernel import product_kernel
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor


@register
class BatchMatMul(Operator):
    """The matrix product of the last two dims of ``x`` and ``y``; leading dims broadcast.

    The contracted dim must be cut alike in both; where it is, each rank computes a term and the output is their sum.

    Parameters
    ----------
    transpose_a, transpose_b : bool
        Whether the last two dims of ``x`` come as (k, m), and those of ``y`` as (n, k).

    Raises
    ------
    ShapeError
        When they do not fit, or a tensor has fewer than two dims.

    Examples
    --------
    >>> import numpy as np
    >>> BatchMatMul()(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
    (5, 2, 4)
    """

    kind = "gemm"

    def __init__(self, transpose_a: bool = False, transpose_b: bool = False) -> None:
        self.transpose_a = transpose_a
        self.transpose_b = transpose_b

    def __call__(self, x: Any, y: Any) -> Any:
        return super().__call__(x, y)

    def _matrix(self, shape: tuple[int, ...], transposed: bool) -> tuple[int, int]:
        return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        x, y = inputs
        self._check_ranks(x, y)
        rows, inner = self._matrix(x.shape, self.transpose_a)
        other, columns = self._matrix(y.shape, self.transpose_b)
        if inner != other:
            raise ShapeError(
                f"x {x.shape} and y {y.shape} (transpose_a={self.transpose_a}, transpose_b={self.transpose_b}) "
                f"contract {inner} elements with {other}; make them equal"
            )
        batch = broadcast_shape(x.shape[:-2], y.shape[:-2]) if len(x.shape) + len(y.shape) > 4 else ()
        return (TensorSpec((*batch, rows, columns), common_dtype(x.dtype, y.dtype)),)

    def _check_ranks(self, x: TensorSpec, y: TensorSpec) -> None:
        if min(len(x.shape), len(y.shape)) < 2:
            raise ShapeError(f"x {x.shape} and y {y.shape} must have at least two dims")

    def equation(self, *inputs: TensorSpec) -> Equation:
        x, y = (spec.shape for spec in inputs)
        rank = max(len(x), len(y)) - 2
        batch = broadcast_shape(x[:-2], y[:-2]) if rank else ()
        names = [f"b{dim}" for dim in range(rank)]

        def labels(shape: tuple[int, ...], matrix: Labels) -> Labels:
            start = rank - (len(shape) - 2)
            leading = tuple(
                names[start + dim] if extent == batch[start + dim] else None for dim, extent in enumerate(shape[:-2])
            )
            return leading + matrix

        left: Labels = ("k", "m") if self.transpose_a else ("m", "k")
        right: Labels = ("n", "k") if self.transpose_b else ("k", "n")
        return Equation(
            (labels(x, left), labels(y, right)),
            ((*names, "m", "n"),),
            batch=names[0] if names else "m",
            order=(*names, "m", "k", "n"),
        )

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        x = inputs[0].swapaxes(-1, -2) if self.transpose_a else inputs[0]
        y = inputs[1].swapaxes(-1, -2) if self.transpose_b else inputs[1]
        return product_kernel(runtime, x, y, outputs[0])

    def gradient(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], gradients: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        x, y = inputs
        product = type(self)
        gradient = gradients[0]
        if self.transpose_a:
            of_x = product(self.transpose_b, True)(y, gradient)
        else:
            of_x = product(False, not self.transpose_b)(gradient, y)
        if self.transpose_b:
            of_y = product(True, self.transpose_a)(gradient, x)
        else:
            of_y = product(not self.transpose_a, False)(x, gradient)
        return sum_to(of_x, x.shape), sum_to(of_y, y.shape)


@register
class MatMul(BatchMatMul):
    """The product of two matrices, ``x`` (m, k) and ``w`` (k, n), either transposed when asked for.

    Its strategy has two cuts for each input, ``((2, 1), (1, 2))``; k must be cut alike in both. Where it is, each rank
    computes a term, and the output is their sum.

    Parameters
    ----------
    transpose_a, transpose_b : bool
        Whether ``x`` comes as (k, m), and ``w`` as (n, k).

    Raises
    ------
    ShapeError
        When they do not fit, or have not two dims.

    Examples
    --------
    >>> import numpy as np
    >>> MatMul(transpose_b=True)(np.ones((2, 3)), np.ones((4, 3))).shape
    (2, 4)
    """

    def _check_ranks(self, x: TensorSpec, y: TensorSpec) -> None:
        if len(x.shape) != 2 or len(y.shape) != 2:
            raise ShapeError(f"x {x.shape} and y {y.shape} must have two dims; use BatchMatMul for more")
