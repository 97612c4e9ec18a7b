"""Powers of every dtype, and their gradients away from where they have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops

X = np.array([-2.0, -0.5, 0.0, 0.5, 3.0])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, np.array(2.0), np.array([2.0]), np.array([2.0, 1, 3, 0, 2])])
def test_a_power_is_numpys_whether_its_exponent_is_2_or_not(exponent: Any) -> None:
    np.testing.assert_array_equal(ops.Pow()(X, exponent).asnumpy(), X**exponent)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float16, np.float32])
def test_a_power_of_a_number_has_the_dtype_of_the_tensor(dtype: Any) -> None:
    found = ops.Pow()(Tensor(np.array([1, 2, 3], dtype)), 2).asnumpy()
    np.testing.assert_array_equal(found, np.array([1, 4, 9], dtype), strict=True)


@pytest.mark.parametrize("exponent", [0, 0.0, np.array([0.0]), np.zeros(5), np.array([0.0, 1.0, 0.0, 2.0, 0.0])])
def test_the_zeroth_power_has_a_slope_of_0_even_where_the_base_is_0(exponent: Any) -> None:
    found = ops.grad(lambda x: (x**exponent).sum())(Tensor(X)).asnumpy()
    np.testing.assert_array_equal(found, np.zeros(5) + np.where(exponent == 0, 0.0, exponent * X ** (exponent > 1)))


def test_the_zeroth_power_has_a_curvature_of_0_too() -> None:
    slope = ops.grad(lambda x: (x**0).sum())
    assert ops.grad(lambda x: slope(x).sum())(Tensor(X)).tolist() == [0.0] * 5


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0])
def test_a_base_of_any_sign_has_a_gradient(exponent: float) -> None:
    found = ops.grad(lambda x: (x**exponent).sum())(Tensor(X)).asnumpy()
    np.testing.assert_allclose(found, exponent * X ** (exponent - 1))


def test_an_exponent_has_the_logarithm_of_the_base_as_its_slope_and_none_where_the_base_is_0() -> None:
    base, exponent = np.array([0.5, 1.0, 3.0, 0.0]), np.array([2.0, 3.0, 0.5, 2.0])
    found = ops.grad(lambda x, y: (x**y).sum(), 1)(Tensor(base), Tensor(exponent)).asnumpy()
    np.testing.assert_allclose(found, [0.25 * np.log(0.5), 0.0, np.sqrt(3) * np.log(3), 0.0], atol=1e-15)
    summed = ops.grad(lambda x, y: (x**y).sum(), 1)(Tensor(base), Tensor(np.array([2.0]))).asnumpy()
    np.testing.assert_allclose(summed, [0.25 * np.log(0.5) + 9 * np.log(3)])
