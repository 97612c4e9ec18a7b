"""Functions that are one operator: what they take, and what they make of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ShapeError

X = np.random.default_rng(17).normal(size=(2, 3, 4))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_softmax_is_of_the_dtype_of_its_input_unless_told(dtype: Any) -> None:
    assert ops.softmax(X.astype(dtype)).dtype == dtype
    assert ops.softmax(X.astype(dtype), dtype=np.float32).dtype == np.float32


def test_softmax_takes_integers_that_it_is_told_to_cast() -> None:
    found = ops.softmax(np.array([0, 0, 0, 0]), dtype=np.float64).asnumpy()
    np.testing.assert_array_equal(found, np.full(4, 0.25), strict=True)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_last_dims_are_normalized_with_the_documented_epsilon(dims: int) -> None:
    axes = tuple(range(3 - dims, 3))
    far = 0.01 * (X - X.mean(axes, keepdims=True))
    wanted = far / np.sqrt((far**2).mean(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(ops.layer_norm(0.01 * X, X.shape[-dims:]).asnumpy(), wanted, rtol=1e-9)


def test_other_dims_than_the_last_are_not_normalized() -> None:
    for shape in [(3,), (2, 3), (2, 2, 3, 4)]:
        with pytest.raises(ShapeError, match=r"must be the last dims of \(2, 3, 4\)"):
            ops.layer_norm(X, shape)


def test_the_seed_of_dropout_decides_what_is_kept() -> None:
    x = np.ones(256, np.float32)

    def kept(**seed: int) -> list[float]:
        return ops.dropout(x, 0.5, **seed).asnumpy().tolist()

    assert {*kept(seed=5)} == {0.0, 2.0}
    assert kept(seed=5) != kept(seed=7)


def test_rows_and_codes_are_found_along_the_first_and_the_last_dim_unless_told() -> None:
    np.testing.assert_array_equal(ops.gather(X, np.array([1])).asnumpy(), X[[1]])
    np.testing.assert_array_equal(ops.one_hot(np.array([2, 0]), 3).asnumpy(), np.eye(3, dtype=int)[[2, 0]])
    np.testing.assert_array_equal(ops.one_hot(np.array([2, 0]), 3, 5, -5, 0).asnumpy(), 10 * np.eye(3)[:, [2, 0]] - 5)


def test_what_is_dropped_out_is_given_back_as_a_tensor_where_nothing_is() -> None:
    for found in (ops.dropout([1.0, 2.0], 0.0), ops.dropout([1.0, 2.0], 0.5, False)):
        assert isinstance(found, Tensor)
        assert found.tolist() == [1.0, 2.0]
