"""The order of elements: of equal ones the first counts, along any dim, of any dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ConfigurationError, ShapeError

GENERATOR = np.random.default_rng(29)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(9,), (3, 8), (8, 3), (2, 3, 16), (4, 2, 5), (1, 1, 1)])
def test_the_largest_elements_come_in_a_stable_order(shape: tuple[int, ...], dtype: Any) -> None:
    x = GENERATOR.integers(0, 4, size=shape).astype(dtype)
    for count in {1, 2, shape[-1] // 4 or 1, shape[-1]} - {0}:
        if count > shape[-1]:
            continue
        wanted = np.argsort(-x.astype(np.int64), -1, kind="stable")[..., :count]
        values, indices = ops.TopK()(x, count)
        np.testing.assert_array_equal(indices.asnumpy(), wanted.astype(np.int32), strict=True)
        np.testing.assert_array_equal(values.asnumpy(), np.take_along_axis(x, wanted, -1), strict=True)


@pytest.mark.parametrize("count", [0, 6, -1])
def test_more_elements_than_a_row_has_are_refused(count: int) -> None:
    with pytest.raises(ShapeError, match=rf"k {count} must be 1 to 5, the elements of a row of \(6, 5\)"):
        ops.TopK()(np.zeros((6, 5)), count)


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5)])
def test_what_is_chosen_alone_has_a_gradient(shape: tuple[int, ...]) -> None:
    x = GENERATOR.permutation(int(np.prod(shape))).reshape(shape).astype(np.float64)
    weights = GENERATOR.normal(size=(*shape[:-1], 2))
    found = ops.grad(lambda given: (ops.TopK()(given, 2)[0] * weights).sum())(Tensor(x)).asnumpy()
    wanted = np.zeros(shape)
    np.put_along_axis(wanted, np.argsort(-x, -1)[..., :2], weights, -1)
    np.testing.assert_allclose(found, wanted)


def test_order_is_not_said_to_be_left_out_unless_it_is_asked_for(remarks: Any) -> None:
    ops.TopK()
    assert remarks() == []
    ops.TopK(sorted=False)
    assert ["sorted=False has no effect" in line for line in remarks()] == [True]


@pytest.mark.parametrize("name", ["ArgMaxWithValue", "ArgMinWithValue"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("kept", [False, True])
def test_a_place_and_its_element_are_numpys(name: str, axis: int, kept: bool) -> None:
    x = GENERATOR.integers(0, 3, size=(3, 4, 5))
    place, value = getattr(ops, name)(axis, kept)(x)
    find, extreme = (np.argmax, np.max) if name == "ArgMaxWithValue" else (np.argmin, np.min)
    np.testing.assert_array_equal(place.asnumpy(), find(x, axis, keepdims=kept).astype(np.int32), strict=True)
    np.testing.assert_array_equal(value.asnumpy(), extreme(x, axis, keepdims=kept), strict=True)


def test_rows_are_those_of_the_last_dim_or_of_the_first_with_values_unless_told() -> None:
    x = np.array([[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]])
    assert ops.Argmax()(x).tolist() == [1, 0]
    assert ops.Argmin()(x).tolist() == [0, 1]
    assert [one.tolist() for one in ops.ArgMaxWithValue()(x)] == [[1, 0, 1], [7.0, 5.0, 3.0]]
    assert [one.tolist() for one in ops.ArgMinWithValue()(x)] == [[0, 1, 0], [1.0, 0.0, 2.0]]


@pytest.mark.parametrize("name", ["Argmax", "Argmin"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_place_has_the_type_that_it_is_told(name: str, dtype: Any) -> None:
    assert getattr(ops, name)(0, dtype)(np.ones((2, 3))).dtype == dtype
    with pytest.raises(ConfigurationError, match=f"{name}: output_type .*int16.* must be int32 or int64"):
        getattr(ops, name)(0, np.int16)


def test_a_row_without_elements_has_no_largest() -> None:
    for operator in (ops.Argmax(1), ops.ArgMinWithValue(1)):
        with pytest.raises(ShapeError, match=r"dim 1 of \(3, 0, 2\) has no element"):
            operator(np.zeros((3, 0, 2)))
    assert ops.Argmax(1)(np.zeros((0, 3))).shape == (0,)


def test_the_first_of_equal_elements_has_all_of_the_gradient() -> None:
    x = np.array([[[2.0, 7.0], [7.0, 7.0]], [[7.0, 1.0], [1.0, 1.0]]])
    for name, axis in [("ArgMaxWithValue", 1), ("ArgMinWithValue", 0), ("ArgMaxWithValue", -1), ("ArgMinWithValue", 1)]:
        find = np.argmax if name == "ArgMaxWithValue" else np.argmin
        wanted = np.zeros(x.shape)
        places = find(x, axis, keepdims=True)
        weights = np.arange(1.0, 1 + places.size).reshape(places.shape)
        np.put_along_axis(wanted, places, weights, axis)
        for kept in (False, True):
            shaped = weights if kept else weights.squeeze(axis)
            operator = getattr(ops, name)(axis, kept)
            found = ops.grad(lambda given, operator=operator, shaped=shaped: (operator(given)[1] * shaped).sum())(
                Tensor(x)
            )
            np.testing.assert_array_equal(found.asnumpy(), wanted)
