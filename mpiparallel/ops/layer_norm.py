"""Layer normalisation, with its gradient fused into one operator."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.differentiate import is_zero
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.ops.blocks import block_size, row_blocks, with_scratch
from mpiparallel.ops.input_checks import check_floating, check_shape, normal_axis

Tensors = Sequence[Tensor]


class LayerNormalisation(Operator):
    """What the operator and its gradient share: which dims are normalised, and which have a scale."""

    def __init__(self, begin_norm_axis: int = 1, begin_params_axis: int = 1, epsilon: float = 1e-7) -> None:
        self.begin_norm_axis = begin_norm_axis
        self.begin_params_axis = begin_params_axis
        self.epsilon = epsilon

    def first_dims(self, rank: int) -> tuple[int, int]:
        """Return the first normalised dim and the first dim of ``gamma`` and ``beta`` of an x with ``rank`` dims."""
        return normal_axis(self.begin_norm_axis, rank), normal_axis(self.begin_params_axis, rank)

    def labels(self, rank: int) -> tuple[Labels, Labels, Labels]:
        """Return the labels of x, of its mean and of gamma."""
        norm, params = self.first_dims(rank)
        whole: Labels = tuple(f"d{dim}" for dim in range(rank))
        return whole, tuple(label if dim < norm else None for dim, label in enumerate(whole)), whole[params:]

    def rule(self, inputs: tuple[Labels, ...], outputs: tuple[Labels, ...], rank: int) -> Equation:
        """Return the equation in which the normalised dims are not cut."""
        norm, _ = self.first_dims(rank)
        whole = frozenset(f"d{dim}" for dim in range(norm, rank))
        return Equation(inputs, outputs, whole, batch="d0" if norm else None)

    def statistics_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of mean and variance: that of x with one element in each normalised dim."""
        norm, _ = self.first_dims(len(shape))
        return shape[:norm] + (1,) * (len(shape) - norm)

    def normalised_axes(self, rank: int) -> tuple[int, ...]:
        """Return the normalised dims, counted from the right so that they hold for any block."""
        return tuple(range(self.first_dims(rank)[0] - rank, 0))


@register
class LayerNorm(LayerNormalisation):
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` over the dims from ``begin_norm_axis`` on.

    Returns the normalised x, its mean and its variance; these two have one element in each normalised dim. ``gamma``
    and ``beta`` have the shape of x from ``begin_params_axis`` on. Normalised dims are not cut.
    """

    def __call__(self, input_x: Any, gamma: Any, beta: Any) -> Any:
        return super().__call__(input_x, gamma, beta)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        x, gamma, beta = inputs
        _, params = self.first_dims(len(x.shape))
        check_floating(input_x=x, gamma=gamma, beta=beta)
        check_shape(x.shape[params:], gamma=gamma, beta=beta)
        statistics = TensorSpec(self.statistics_shape(x.shape), x.dtype)
        return x, statistics, statistics

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank = len(inputs[0].shape)
        x, mean, gamma = self.labels(rank)
        return self.rule((x, gamma, gamma), (x, mean, mean), rank)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (x, gamma, beta), dtype = runtime.array_module, inputs, outputs[0].dtype
        axes = self.normalised_axes(x.ndim)
        count = prod(x.shape[axis] for axis in axes)
        pieces = row_blocks([x, *outputs], min(self.first_dims(x.ndim)), block_size(runtime))
        blocks = [
            (*block, runtime.scratch(tuple(block[2].shape), dtype, 1))
            for block in with_scratch(runtime, pieces, 1, dtype)
        ]

        def run() -> None:
            for part, target, mean, variance, product, scale in blocks:
                xp.sum(part, axis=axes, keepdims=True, out=mean)
                xp.divide(mean, count, out=mean)
                xp.subtract(part, mean, out=target)
                xp.multiply(target, target, out=product)
                xp.sum(product, axis=axes, keepdims=True, out=variance)
                xp.divide(variance, count, out=variance)
                _reciprocal_deviation(xp, variance, self.epsilon, scale)
                xp.multiply(target, scale, out=target)
                xp.multiply(target, gamma, out=target)
                xp.add(target, beta, out=target)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        x, gamma, _ = inputs
        _, mean, variance = outputs
        dy, of_mean, of_variance = gradients
        operator = LayerNormGrad(self.begin_norm_axis, self.begin_params_axis, self.epsilon)
        dx, dgamma, dbeta = operator(dy, x, mean, variance, gamma)
        count = x.size // max(mean.size, 1)
        if not is_zero(of_mean):
            dx = dx + of_mean / float(count)
        if not is_zero(of_variance):
            dx = dx + (x - mean) * (of_variance * (2.0 / count))
        return dx, dgamma, dbeta


def _reciprocal_deviation(xp: Any, variance: Array, epsilon: float, target: Array) -> None:
    xp.add(variance, epsilon, out=target)
    xp.sqrt(target, out=target)
    xp.reciprocal(target, out=target)


@register
class LayerNormGrad(LayerNormalisation):
    """The gradients of LayerNorm with respect to x, gamma and beta.

    ``dgamma`` and ``dbeta`` are sums over the dims that they lack; where one of these is cut, they are partial.
    """

    reuses = (0,)

    def __call__(self, dy: Any, x: Any, mean: Any, variance: Any, gamma: Any) -> Any:
        return super().__call__(dy, x, mean, variance, gamma)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        dy, x, mean, variance, gamma = inputs
        check_shape(x.shape, dy=dy)
        check_shape(self.statistics_shape(x.shape), mean=mean, variance=variance)
        return x, gamma, gamma

    def equation(self, *inputs: TensorSpec) -> Equation:
        rank = len(inputs[1].shape)
        x, mean, gamma = self.labels(rank)
        return self.rule((x, x, mean, mean, gamma), (x, gamma, gamma), rank)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        (dy, x, mean, variance, gamma), (dx, dgamma, dbeta) = inputs, outputs
        xp, dtype, axes = runtime.array_module, dx.dtype, self.normalised_axes(x.ndim)
        pieces = row_blocks([dy, x, mean, variance, dx], min(self.first_dims(x.ndim)), block_size(runtime))
        blocks = [
            (*block, *(runtime.scratch(tuple(block[2].shape), dtype, slot) for slot in (2, 3)))
            for block in with_scratch(runtime, pieces, 2, dtype)
        ]
        sum_of_rows = runtime.scratch(tuple(gamma.shape), dtype, 4)

        def run() -> None:
            dgamma.fill(0)
            dbeta.fill(0)
            for block in blocks:
                self._normalise(xp, *block)
                self._add_rows(xp, gamma, dgamma, dbeta, sum_of_rows, *block)
                self._differentiate(xp, gamma, axes, *block)

        return run

    def _normalise(self, xp: Any, *block: Array) -> None:
        _, x, mean, variance, _, normal, _, scale, _ = block
        _reciprocal_deviation(xp, variance, self.epsilon, scale)
        xp.subtract(x, mean, out=normal)
        xp.multiply(normal, scale, out=normal)

    def _add_rows(self, xp: Any, gamma: Array, dgamma: Array, dbeta: Array, sum_of_rows: Array, *block: Array) -> None:
        dy, _, _, _, _, normal, product, _, _ = block
        rows = tuple(range(dy.ndim - gamma.ndim))
        xp.multiply(dy, normal, out=product)
        xp.sum(product, axis=rows, out=sum_of_rows)
        xp.add(dgamma, sum_of_rows, out=dgamma)
        xp.sum(dy, axis=rows, out=sum_of_rows)
        xp.add(dbeta, sum_of_rows, out=dbeta)

    def _differentiate(self, xp: Any, gamma: Array, axes: tuple[int, ...], *block: Array) -> None:
        dy, x, _, _, dx, normal, product, scale, row = block
        count = prod(x.shape[axis] for axis in axes)
        xp.multiply(product, gamma, out=product)
        xp.sum(product, axis=axes, keepdims=True, out=row)
        xp.divide(row, count, out=row)
        xp.multiply(normal, row, out=normal)
        xp.multiply(dy, gamma, out=product)
        xp.subtract(product, normal, out=normal)
        xp.sum(product, axis=axes, keepdims=True, out=row)
        xp.divide(row, count, out=row)
        xp.subtract(normal, row, out=normal)
        xp.multiply(normal, scale, out=dx)
