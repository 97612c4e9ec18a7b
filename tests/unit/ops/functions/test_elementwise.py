"""Quotients that are rounded towards 0 or down, of integers and floats, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ConfigurationError


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_a_quotient_of_integers_is_rounded_towards_0_even_of_the_least_of_them(dtype: Any) -> None:
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    dividends = [least, least, least, 7, -7, 7, -7, -6, 0, most, 5, least + 1]
    divisors = [3, -3, most, 2, 2, -2, -2, 3, -5, least, least, 2]
    wanted = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(dividends, divisors, strict=True)]
    x, y = np.array(dividends, dtype), np.array(divisors, dtype)
    found = ops.div(x, y, rounding_mode="trunc").asnumpy()
    np.testing.assert_array_equal(found, np.array(wanted, dtype), strict=True)


def test_a_quotient_of_what_has_no_sign_is_rounded_either_way_alike() -> None:
    x, y = np.array([255, 7, 0], np.uint8), np.array([2, 3, 9], np.uint8)
    for mode in ("trunc", "floor"):
        found = ops.div(x, y, rounding_mode=mode).asnumpy()
        np.testing.assert_array_equal(found, np.array([127, 2, 0], np.uint8), strict=True)


def test_a_quotient_of_floats_is_rounded_towards_0_and_what_is_no_number_stays() -> None:
    x, y = np.array([-7.5, 7.5, -0.5, -6.0, np.nan]), np.array([2.0, -2.0, 1.0, 3.0, 1.0])
    np.testing.assert_array_equal(ops.div(x, y, rounding_mode="trunc").asnumpy(), [-3.0, -3.0, 0.0, -2.0, np.nan])
    np.testing.assert_array_equal(ops.div(x, y, rounding_mode="floor").asnumpy(), [-4.0, -4.0, -1.0, -2.0, np.nan])


def test_a_number_divides_a_tensor_of_integers() -> None:
    assert ops.div(Tensor(np.array([-7, 7])), 2, rounding_mode="trunc").tolist() == [-3, 3]


def test_another_rounding_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="div: rounding_mode 'ceil' is not one of None, 'floor', 'trunc'"):
        ops.div(1.0, 2.0, rounding_mode="ceil")
