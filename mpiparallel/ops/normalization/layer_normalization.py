"""Layer normalisation, with its gradient fused into one operator."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.differentiate import is_zero
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.expression.term import Term, call, reduce
from mpiparallel.graph.input_checks import check_floating, check_shape, normal_axis
from mpiparallel.graph.operator import Operator, register
from mpiparallel.graph.tensor import Tensor

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

    def mean(self, x: Term) -> Term:
        """Return the mean over the normalised dims."""
        dims = range(self.first_dims(len(x.shape))[0], len(x.shape))
        return reduce("sum", x, dims) * (1.0 / max(prod(x.shape[dim] for dim in dims), 1))

    def inverse_deviation(self, variance: Term) -> Term:
        """Return ``1 / sqrt(variance + epsilon)``."""
        return 1.0 / call("sqrt", variance + self.epsilon)


@register
class LayerNorm(LayerNormalisation):
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` over the dims from ``begin_norm_axis`` on.

    Returns the normalised x, its mean and its variance; these two have one element in each normalised dim. ``gamma``
    and ``beta`` have the shape of x from ``begin_params_axis`` on. Normalised dims are not cut.

    Parameters
    ----------
    begin_norm_axis : int
        The first dim that is normalised.
    begin_params_axis : int
        The first dim that ``gamma`` and ``beta`` have.
    epsilon : float
        What is added to the variance.

    Raises
    ------
    ShapeError
        When the shapes do not fit.

    Examples
    --------
    >>> y, mean, variance = LayerNorm()([[1.0, 3.0]], [1.0, 1.0], [0.0, 0.0])
    >>> y.asnumpy().round(4).tolist(), mean.asnumpy().tolist(), variance.asnumpy().tolist()
    ([[-1.0, 1.0]], [[2.0]], [[1.0]])
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

    def expression(self, *inputs: Term) -> Sequence[Term]:
        x, gamma, beta = inputs
        mean = self.mean(x)
        middle = x - mean
        variance = self.mean(middle * middle)
        return middle * self.inverse_deviation(variance) * gamma + beta, mean, variance

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


@register
class LayerNormGrad(LayerNormalisation):
    """The gradients of LayerNorm with respect to x, gamma and beta.

    ``dgamma`` and ``dbeta`` are sums over the dims that they lack; where one of these is cut, they are partial.

    Parameters
    ----------
    begin_norm_axis, begin_params_axis, epsilon
        As of LayerNorm.

    Examples
    --------
    >>> dx, dgamma, dbeta = LayerNormGrad()([[1.0, 1.0]], [[1.0, 3.0]], [[2.0]], [[1.0]], [1.0, 1.0])
    >>> dgamma.asnumpy().round(4).tolist(), dbeta.asnumpy().tolist()
    ([-1.0, 1.0], [1.0, 1.0])
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

    def expression(self, *inputs: Term) -> Sequence[Term]:
        dy, x, mean, variance, gamma = inputs
        inverse = self.inverse_deviation(variance)
        normal = (x - mean) * inverse
        scaled, product = dy * gamma, dy * normal
        dx = (scaled - self.mean(scaled) - normal * self.mean(product * gamma)) * inverse
        rows = range(len(x.shape) - len(gamma.shape))
        return dx, reduce("sum", product, rows), reduce("sum", dy, rows)
