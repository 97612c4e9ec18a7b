"""Extremes and sums of rows: of any dtype, along any dim."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mpiparallel import ops

X = np.random.default_rng(11).permutation(60).reshape(3, 4, 5).astype(np.float64)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dim", [None, 0, 1, 2, -1, -2, -3])
def test_the_first_elements_of_each_row_are_those_of_the_sorted_row(dim: int | None, largest: bool) -> None:
    axis = -1 if dim is None else dim
    places = np.argsort(-X if largest else X, axis)
    wanted = np.take(places, [0, 1], axis)
    values, indices = ops.topk(X, 2, dim, largest)
    np.testing.assert_array_equal(indices.asnumpy(), wanted)
    np.testing.assert_array_equal(values.asnumpy(), np.take_along_axis(X, wanted, axis))


@pytest.mark.parametrize(
    ("given", "least", "places"),
    [
        (np.array([3, 0, 5], np.uint8), [0, 3], [1, 0]),
        (np.array([255, 0, 254], np.uint8), [0, 254], [1, 2]),
        (np.array([3, -128, 5], np.int8), [-128, 3], [1, 0]),
        (np.array([3, -(2**63), 2**63 - 1], np.int64), [-(2**63), 3], [1, 0]),
        (np.array([True, False, True]), [False, True], [1, 0]),
        (np.array([0.5, -np.inf, 2.0], np.float32), [-np.inf, 0.5], [1, 0]),
        (np.array([0.5, -3.0, 2.0], ml_dtypes.bfloat16), [-3.0, 0.5], [1, 0]),
    ],
)
def test_the_smallest_elements_are_found_in_every_dtype(given: Any, least: list[Any], places: list[int]) -> None:
    values, indices = ops.topk(given, 2, largest=False)
    np.testing.assert_array_equal(values.asnumpy(), np.array(least, given.dtype), strict=True)
    assert indices.asnumpy().tolist() == places


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_in_a_flat_tensor_is_a_scalar_of_int64_whatever_is_kept(name: str) -> None:
    for kept in (False, True):
        found = getattr(ops, name)(X, None, kept)
        assert (found.shape, found.dtype, int(found)) == ((), np.int64, int(getattr(np, name)(X)))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float16, np.float32])
def test_a_cumulated_sum_has_the_dtype_of_its_input_unless_told(dtype: Any) -> None:
    given = np.array([1, 2, 3], dtype)
    np.testing.assert_array_equal(ops.cumsum(given, 0).asnumpy(), np.array([1, 3, 6], dtype), strict=True)
    wider = ops.cumsum(given, 0, np.float64).asnumpy()
    np.testing.assert_array_equal(wider, np.array([1.0, 3.0, 6.0]), strict=True)
