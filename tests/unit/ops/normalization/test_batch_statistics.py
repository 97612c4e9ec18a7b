"""Sums, means and variances of channels: their gradients by hand, small counts, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, Tensor, ops
from mpiparallel.errors import ShapeError
from mpiparallel.ops.normalization.moving_average import AssignMovingAverage

GENERATOR = np.random.default_rng(101)
X = GENERATOR.normal(1.0, 2.0, size=(4, 3, 2, 5))
SCALE, BIAS, MEAN, VARIANCE = (*GENERATOR.normal(size=(3, 3)), np.array([4.0, 1.0, 0.25]))


def by_channel(vector: Any, dims: int) -> Any:
    return np.asarray(vector).reshape(-1, *[1] * (dims - 2))


@pytest.mark.parametrize("dims", [2, 3, 4])
def test_a_sum_and_a_sum_of_squares_of_each_channel_have_gradients(dims: int) -> None:
    x = X[(..., *[0] * (4 - dims))]
    axes = (0, *range(2, dims))
    total, squares = ops.BNTrainingReduce()(x.astype(np.float32))
    assert total.dtype == squares.dtype == np.float64
    np.testing.assert_allclose(total.asnumpy(), x.sum(axes), rtol=1e-5)
    np.testing.assert_allclose(squares.asnumpy(), (x**2).sum(axes), rtol=1e-5)

    def weighed(given: Tensor) -> Tensor:
        one, other = ops.BNTrainingReduce()(given)
        return (one * SCALE).sum() + (other * BIAS).sum()

    wanted = by_channel(SCALE, dims) + 2 * x * by_channel(BIAS, dims)
    np.testing.assert_allclose(ops.grad(weighed)(Tensor(x)).asnumpy(), wanted, rtol=1e-12)


def test_the_mean_and_the_variance_have_gradients_by_both_sums() -> None:
    total, squares = np.array([4.0, 6.0]), np.array([10.0, 30.0])
    mean, variance = ops.BNMoments(4)(total, squares)
    assert (mean.tolist(), variance.tolist()) == ([1.0, 1.5], [1.5, 5.25])
    for output, wanted in [(0, ([0.25, 0.25], [0.0, 0.0])), (1, ([-0.5, -0.75], [0.25, 0.25]))]:
        found = ops.grad(lambda a, b, output=output: ops.BNMoments(4)(a, b)[output].sum(), (0, 1))(
            Tensor(total), Tensor(squares)
        )
        assert tuple(one.tolist() for one in found) == wanted


def test_a_variance_is_not_below_0_where_sums_are_rounded() -> None:
    _, variance = ops.BNMoments(2)(np.array([4.0, 2.0]), np.array([7.5, 3.0]))
    assert variance.tolist() == [0.0, 0.5]


@pytest.mark.parametrize("dims", [2, 3, 4])
def test_what_given_statistics_normalise_has_a_gradient_by_each_of_its_inputs(dims: int) -> None:
    x = X[(..., *[0] * (4 - dims))]
    axes, epsilon = (0, *range(2, dims)), 0.5
    weights = np.random.default_rng(103).normal(size=x.shape)
    found = ops.grad(lambda *given: (ops.BatchNorm(epsilon=epsilon)(*given)[0] * weights).sum(), (0, 1, 2, 3, 4))(
        *map(Tensor, (x, SCALE, BIAS, MEAN, VARIANCE))
    )
    inverse = 1 / np.sqrt(VARIANCE + epsilon)
    middle = x - by_channel(MEAN, dims)
    wanted = [
        weights * by_channel(SCALE * inverse, dims),
        (weights * middle).sum(axes) * inverse,
        weights.sum(axes),
        -weights.sum(axes) * SCALE * inverse,
        (weights * middle).sum(axes) * SCALE * -0.5 * inverse**3,
    ]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.asnumpy(), other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dims", [2, 3, 4])
def test_what_the_batchs_own_statistics_normalise_has_a_gradient_through_them(dims: int) -> None:
    x = X[(..., *[0] * (4 - dims))]
    axes = (0, *range(2, dims))
    weights = np.random.default_rng(107).normal(size=x.shape)
    moving = Parameter(MEAN.copy(), "mean"), Parameter(VARIANCE.copy(), "variance")
    of_x, of_scale, of_bias = ops.grad(
        lambda given, scale, bias: (ops.BatchNorm(True, 0.25)(given, scale, bias, *moving)[0] * weights).sum(),
        (0, 1, 2),
    )(Tensor(x), Tensor(SCALE), Tensor(BIAS))
    inverse = by_channel(1 / np.sqrt(x.var(axes) + 0.25), dims)
    normalised = (x - x.mean(axes, keepdims=True)) * inverse
    bent = weights - weights.mean(axes, keepdims=True) - normalised * (weights * normalised).mean(axes, keepdims=True)
    np.testing.assert_allclose(of_x.asnumpy(), bent * inverse * by_channel(SCALE, dims), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(of_scale.asnumpy(), (weights * normalised).sum(axes), rtol=1e-9)
    np.testing.assert_allclose(of_bias.asnumpy(), weights.sum(axes), rtol=1e-9)


@pytest.mark.parametrize(("momentum", "correction", "wanted"), [(0.75, 1.0, [12.5]), (0.75, 2.0, [17.5]), (0, 1, [20])])
def test_a_variable_moves_towards_the_corrected_value(momentum: float, correction: float, wanted: list[float]) -> None:
    variable = Parameter(np.array([10.0]), "variable")
    AssignMovingAverage(momentum, correction)(variable, np.array([20.0]))
    assert variable.tolist() == wanted


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.BNTrainingReduce()(MEAN), r"x has shape \(3,\); it must be \(images, channels, \.\.\.\)"),
    (lambda: ops.BatchNorm()(MEAN, SCALE, BIAS, MEAN, VARIANCE), r"x has shape \(3,\); it must be \(images, channels"),
    (lambda: ops.BNTrainingReduce()(X.astype(int)), "input 0 is of dtype int64; cast it to a floating-point dtype"),
    (lambda: ops.BatchNorm()(X, SCALE, BIAS, MEAN.astype(int), VARIANCE), "input 3 is of dtype int64; cast it"),
    (lambda: ops.BNInferGrad()(X, SCALE[:2], VARIANCE), r"input 1 has shape \(2,\); it must be \(3,\)"),
    (lambda: ops.BNTrainingUpdateGrad()(X, X[:1], MEAN, VARIANCE), r"input 1 has shape \(1, 3, 2, 5\); it must be \(4"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_what_has_no_channels_or_others_is_refused_by_its_place(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call()
