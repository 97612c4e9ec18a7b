"""A choice between tensors and numbers has the dtype that holds both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ShapeError

MASK = np.array([True, False])


@pytest.mark.parametrize(
    ("dtype", "number", "wanted"),
    [
        (np.int32, 5, np.array([5, 1], np.int32)),
        (np.int32, True, np.array([1, 1], np.int32)),
        (np.int8, 0.5, np.array([0.5, 1.0], np.float32)),
        (np.bool_, True, np.array([True, True])),
        (np.bool_, 0.5, np.array([0.5, 1.0], np.float32)),
        (np.float16, 5, np.array([5, 1], np.float16)),
        (np.float16, 0.5, np.array([0.5, 1], np.float16)),
        (ml_dtypes.bfloat16, 0.5, np.array([0.5, 1], ml_dtypes.bfloat16)),
        (np.float64, 0.1, np.array([0.1, 1.0])),
        (np.complex64, 0.5, np.array([0.5, 1.0], np.complex64)),
    ],
)
def test_a_number_is_of_the_dtype_beside_it_where_that_has_such_numbers(dtype: Any, number: Any, wanted: Any) -> None:
    x = np.ones(2, dtype)
    for given in (x, Tensor(x)):
        np.testing.assert_array_equal(ops.select(MASK, number, given).asnumpy(), wanted, strict=True)
        np.testing.assert_array_equal(ops.select(~MASK, given, number).asnumpy(), wanted, strict=True)


@pytest.mark.parametrize("fill", [ops.masked_fill, lambda x, mask, value: Tensor(x).masked_fill(mask, value)])
@pytest.mark.parametrize(("dtype", "number"), [(np.int32, 7), (np.float16, 0.5), (np.int64, 2.0), (np.bool_, True)])
def test_what_is_filled_keeps_its_dtype(fill: Callable[..., Tensor], dtype: Any, number: Any) -> None:
    x = np.zeros(2, dtype)
    wanted = np.array([number, 0], dtype)
    np.testing.assert_array_equal(fill(x, MASK, number).asnumpy(), wanted, strict=True)
    np.testing.assert_array_equal(fill(x, MASK, np.array(number, dtype)).asnumpy(), wanted, strict=True)


@pytest.mark.parametrize(
    ("condition", "x", "y"),
    [((2, 1), (1, 3), (2, 3)), ((3,), (2, 1), ()), ((), (2, 3), (3,)), ((2, 3), (), (1, 1)), ((0,), (1,), (0,))],
)
def test_conditions_and_tensors_broadcast(condition: Any, x: Any, y: Any) -> None:
    generator = np.random.default_rng(37)
    mask = generator.integers(0, 2, size=condition).astype(bool)
    first, second = generator.normal(size=x), generator.normal(size=y)
    found, wanted = ops.select(mask, first, second), np.where(mask, first, second)
    np.testing.assert_array_equal(found.asnumpy(), wanted, strict=True)
    if wanted.size:
        weights = generator.normal(size=wanted.shape)
        of_x, of_y = ops.grad(lambda a, b: (ops.select(mask, a, b) * weights).sum(), (0, 1))(
            Tensor(first), Tensor(second)
        )
        assert (of_x.shape, of_y.shape) == (np.shape(first), np.shape(second))
        np.testing.assert_allclose(of_x.asnumpy().sum(), np.where(mask, weights, 0).sum())
        np.testing.assert_allclose(of_y.asnumpy().sum(), np.where(mask, 0, weights).sum())


def test_numbers_do_not_hold() -> None:
    with pytest.raises(ShapeError, match="condition is of dtype int64; compare it, or cast it to bool"):
        ops.select(np.array([1, 0]), 1.0, 2.0)
