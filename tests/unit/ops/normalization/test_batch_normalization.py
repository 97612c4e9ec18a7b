"""Batch and layer normalisation against formulas that are written out: statistics, their movement, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, Tensor, ops
from mpiparallel.errors import ConfigurationError, ShapeError

GENERATOR = np.random.default_rng(53)
X = GENERATOR.normal(2.0, 3.0, size=(6, 3, 2, 5))
SCALE, BIAS = np.array([1.0, 2.0, -1.0]), np.array([0.5, 0.0, 3.0])
MEAN, VARIANCE = np.array([1.0, 2.0, 3.0]), np.array([4.0, 1.0, 0.25])


def by_channel(vector: Any, dims: int) -> Any:
    return vector.reshape(3, *[1] * (dims - 2))


def normalised(x: Any, mean: Any, variance: Any, epsilon: float) -> Any:
    slope = SCALE / np.sqrt(variance + epsilon)
    return (x - by_channel(mean, x.ndim)) * by_channel(slope, x.ndim) + by_channel(BIAS, x.ndim)


@pytest.mark.parametrize("dims", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [1e-5, 0.5])
def test_given_statistics_are_used_and_left_as_they_are(dims: int, epsilon: float) -> None:
    x = X[(..., *[0] * (4 - dims))]
    y, *statistics = ops.BatchNorm(epsilon=epsilon)(x, SCALE, BIAS, MEAN, VARIANCE)
    np.testing.assert_allclose(y.asnumpy(), normalised(x, MEAN, VARIANCE, epsilon), rtol=1e-12)
    assert len(statistics) == 4


@pytest.mark.parametrize("dims", [2, 3, 4])
@pytest.mark.parametrize("momentum", [0.1, 0.75])
def test_statistics_of_the_batch_are_used_and_moving_ones_follow_by_momentum(dims: int, momentum: float) -> None:
    x = X[(..., *[0] * (4 - dims))]
    moving = Parameter(MEAN.copy(), "mean"), Parameter(VARIANCE.copy(), "variance")
    y, mean, variance, *again = ops.BatchNorm(True, 1e-3, momentum)(x, SCALE, BIAS, *moving)
    axes = (0, *range(2, dims))
    np.testing.assert_allclose(mean.asnumpy(), x.mean(axes), rtol=1e-12)
    np.testing.assert_allclose(variance.asnumpy(), x.var(axes), rtol=1e-9)
    assert [one.tolist() for one in again] == [mean.tolist(), variance.tolist()]
    np.testing.assert_allclose(y.asnumpy(), normalised(x, x.mean(axes), x.var(axes), 1e-3), rtol=1e-9)
    kept = 1 - momentum
    np.testing.assert_allclose(moving[0].asnumpy(), kept * MEAN + momentum * x.mean(axes), rtol=1e-9)
    np.testing.assert_allclose(moving[1].asnumpy(), kept * VARIANCE + momentum * x.var(axes, ddof=1), rtol=1e-9)


def test_of_two_elements_the_moving_variance_gets_half_the_square_of_their_difference() -> None:
    moved = Parameter(MEAN.copy(), "mean"), Parameter(VARIANCE.copy(), "variance")
    rows = X[:2, :, 0, 0]
    ops.BatchNorm(True, momentum=1.0)(rows, SCALE, BIAS, *moved)
    np.testing.assert_allclose(moved[1].asnumpy(), (rows[0] - rows[1]) ** 2 / 2, rtol=1e-9)


def test_one_element_a_channel_has_variance_zero_and_no_movement_to_infinity() -> None:
    moving = Parameter(MEAN.copy(), "mean"), Parameter(VARIANCE.copy(), "variance")
    y, _, variance, *_ = ops.BatchNorm(True)(X[:1, :, 0, 0], SCALE, BIAS, *moving)
    np.testing.assert_allclose(y.asnumpy(), BIAS[None], atol=1e-9)
    np.testing.assert_allclose(variance.asnumpy(), np.zeros(3), atol=1e-12)
    np.testing.assert_allclose(moving[1].asnumpy(), 0.9 * VARIANCE, rtol=1e-6)


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_a_vector_of_other_channels_is_refused_by_its_place(place: int) -> None:
    vectors = [SCALE, BIAS, MEAN, VARIANCE]
    vectors[place - 1] = np.ones(2)
    with pytest.raises(ShapeError, match=rf"input {place} has shape \(2,\); it must be \(3,\)"):
        ops.BatchNorm()(X, *vectors)


def test_images_with_channels_last_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="NHWC"):
        ops.BatchNorm(data_format="NHWC")


@pytest.mark.parametrize(("first", "params"), [(1, 1), (-1, -1), (2, 3), (3, 2), (0, 0), (-2, 1)])
def test_rows_are_normalised_from_a_dim_on_and_scaled_from_another(first: int, params: int) -> None:
    axes = tuple(range(first % 4, 4))
    gamma, beta = GENERATOR.normal(size=(2, *X.shape[params % 4 :]))
    y, mean, variance = ops.LayerNorm(first, params, 0.25)(X, gamma, beta)
    np.testing.assert_allclose(mean.asnumpy(), X.mean(axes, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(variance.asnumpy(), X.var(axes, keepdims=True), rtol=1e-12)
    wanted = (X - X.mean(axes, keepdims=True)) / np.sqrt(X.var(axes, keepdims=True) + 0.25) * gamma + beta
    np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-9)


def test_the_mean_and_the_variance_of_rows_have_gradients_too() -> None:
    x, weights = X[0, 0], GENERATOR.normal(size=(2, 1))
    ones, zeros = np.ones(5), np.zeros(5)
    for output, wanted in [(1, np.ones((2, 5)) / 5), (2, 2 * (x - x.mean(1, keepdims=True)) / 5)]:
        found = ops.grad(lambda given, output=output: (ops.LayerNorm()(given, ones, zeros)[output] * weights).sum())
        np.testing.assert_allclose(found(Tensor(x)).asnumpy(), wanted * weights, rtol=1e-12)


@pytest.mark.parametrize(
    ("gamma", "beta", "said"),
    [
        ((3,), (5,), r"gamma has shape \(3,\); it must be \(5,\)"),
        ((5,), (2, 5), r"beta has shape \(2, 5\); it must be \(5,\)"),
    ],
)
def test_a_scale_of_another_shape_is_refused(gamma: Any, beta: Any, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        ops.LayerNorm(-1, -1)(X, np.ones(gamma), np.ones(beta))
    with pytest.raises(ShapeError, match="input_x is of dtype int64; cast it to a floating-point dtype"):
        ops.LayerNorm(-1, -1)(X.astype(np.int64), np.ones(5), np.ones(5))


def test_one_row_of_known_numbers_has_the_documented_epsilon() -> None:
    y, *_ = ops.LayerNorm()(np.array([[0.0, 2e-4]]), np.ones(2), np.zeros(2))
    np.testing.assert_allclose(y.asnumpy(), [[-1e-4 / np.sqrt(1e-8 + 1e-7), 1e-4 / np.sqrt(1e-8 + 1e-7)]], rtol=1e-9)


def test_no_rows_have_gradients_of_zero() -> None:
    nothing, vector = Tensor(X[:0]), Tensor(SCALE)
    of_x, of_scale = ops.grad(lambda x, scale: ops.BatchNorm(True)(x, scale, *moving())[0].sum(), (0, 1))(
        nothing, vector
    )
    assert of_x.shape == X[:0].shape
    assert of_scale.tolist() == [0.0] * 3
    of_x, of_gamma = ops.grad(lambda x, gamma: ops.LayerNorm()(x, gamma, np.ones(5))[0].sum(), (0, 1))(
        Tensor(X[:0, 0, 0]), Tensor(np.ones(5))
    )
    assert of_x.shape == (0, 5)
    assert of_gamma.tolist() == [0.0] * 5


def moving() -> list[Parameter]:
    return [Parameter(np.zeros(3), "bias"), Parameter(np.zeros(3), "mean"), Parameter(np.ones(3), "variance")]
