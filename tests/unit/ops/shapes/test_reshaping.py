"""Other shapes of the same elements: what -1 stands for, where dims of one element are, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ConfigurationError, ShapeError

X = np.arange(24.0).reshape(2, 3, 4)
ONES = X.reshape(1, 2, 1, 12, 1)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((-1,), (24,)),
        ((4, -1), (4, 6)),
        ((-1, 1), (24, 1)),
        ((2, -1, 3, 1), (2, 4, 3, 1)),
        ((24, -1), (24, 1)),
        ([np.int64(6), 4], (6, 4)),
    ],
)
def test_one_extent_is_what_is_left(shape: Any, wanted: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(ops.Reshape()(X, shape).asnumpy(), X.reshape(wanted), strict=True)


@pytest.mark.parametrize("shape", [(5,), (5, -1), (-1, -1), (-2, -12), (0, -1), (-1, 0), (48, -1), (), (-3, -8)])
def test_a_shape_of_other_elements_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3, 4\) cannot be reshaped to .*: give shapes of as many elements"):
        ops.Reshape()(X, shape)


@pytest.mark.parametrize("shape", [(0,), (-1, 3), (2, 0, 5), (3, -1)])
def test_nothing_has_any_shape_without_elements(shape: tuple[int, ...]) -> None:
    found = ops.Reshape()(np.zeros((0, 3)), shape)
    assert found.size == 0
    assert all(one in (-1, two) for one, two in zip(shape, found.shape, strict=True))


@pytest.mark.parametrize("shape", [(0, -1), (-1, 2, 0)])
def test_an_extent_beside_nothing_is_not_guessed(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"\(0, 3\) cannot be reshaped to .*: give shapes of as many elements"):
        ops.Reshape()(np.zeros((0, 3)), shape)


@pytest.mark.parametrize("axis", [0, 1, 3, -1, -4])
def test_a_dim_of_one_element_is_put_anywhere(axis: int) -> None:
    np.testing.assert_array_equal(ops.ExpandDims()(X, axis).asnumpy(), np.expand_dims(X, axis), strict=True)


@pytest.mark.parametrize("axis", [(), 0, 2, -1, (0, 2), (-1, 0), (4, -5)])
def test_dims_of_one_element_are_taken_out(axis: Any) -> None:
    wanted = np.squeeze(ONES, axis if axis != () else None)
    np.testing.assert_array_equal(ops.Squeeze(axis)(ONES).asnumpy(), wanted, strict=True)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.ExpandDims()(X, 4), "axis 4 is out of range for 4 dims; use -4 to 3"),
    (lambda: ops.ExpandDims()(X, -5), "axis -5 is out of range for 4 dims"),
    (lambda: ops.Squeeze(1)(ONES), r"axis \(1,\) of shape \(1, 2, 1, 12, 1\) must name dims of one element"),
    (lambda: ops.Squeeze((0, 3))(ONES), r"axis \(0, 3\) of shape \(1, 2, 1, 12, 1\) must name dims of one element"),
    (lambda: ops.Squeeze(5)(ONES), "axis 5 is out of range for 5 dims"),
    (lambda: ops.Transpose()(X, (0, 1)), r"\(0, 1\) is no permutation of the 3 dims of \(2, 3, 4\)"),
    (lambda: ops.Transpose()(X, (0, 1, -2)), r"\(0, 1, -2\) is no permutation of the 3 dims"),
    (lambda: ops.BroadcastTo((3, 4))(X), r"\(2, 3, 4\) cannot be broadcast to \(3, 4\)"),
    (lambda: ops.BroadcastTo((2, 3, 8))(X), r"\(2, 3, 4\), \(2, 3, 8\) do not broadcast"),
    (lambda: ops.BroadcastTo((-1, 2, 3, 4))(X), "the first 1 dims are new; give them numbers"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_dims_that_do_not_fit_are_refused_with_those_that_do(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call()


@pytest.mark.parametrize("shape", [(2, 2, 3, 4), (5, 2, 3, 4), (5, 6, 2, -1, 4), (-1, -1, -1)])
def test_leading_dims_are_new_ones(shape: tuple[int, ...]) -> None:
    wanted = np.broadcast_to(
        X, tuple(have if one == -1 else one for one, have in zip(shape[::-1], (4, 3, 2, 1, 1), strict=False))[::-1]
    )
    np.testing.assert_array_equal(ops.BroadcastTo(shape)(X).asnumpy(), wanted)


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0), (-1, 0, 1), (0, -1, -2), (1, 0, 2)])
def test_the_gradient_of_permuted_dims_is_permuted_back(order: tuple[int, ...]) -> None:
    weights = np.random.default_rng(47).normal(size=X.transpose(order).shape)
    found = ops.grad(lambda x: (ops.Transpose()(x, order) * weights).sum())(Tensor(X)).asnumpy()
    np.testing.assert_array_equal(found, weights.transpose(np.argsort([dim % 3 for dim in order])))


@pytest.mark.parametrize(("start", "limit", "step"), [(0, 5, 2), (5, 0, -2), (Tensor(1), Tensor(4), 1), (3, 3, 1)])
def test_numbers_in_a_row_are_pythons(start: Any, limit: Any, step: int) -> None:
    wanted = [*range(int(start), int(limit), step)]
    assert ops.Range()(start, limit, step).tolist() == wanted


def test_numbers_in_a_row_are_bounded_and_lead_somewhere() -> None:
    assert ops.Range(3)(0, 3, 1).tolist() == [0, 1, 2]
    with pytest.raises(ConfigurationError, match="Range: 4 numbers are more than maxlen 3; give a larger maxlen"):
        ops.Range(3)(0, 4, 1)
    with pytest.raises(ConfigurationError, match="Range: delta is 0; give a step that leads from start to limit"):
        ops.Range()(0, 4, Tensor(0))


def test_a_filled_tensor_takes_a_number_or_a_tensor_of_another_dtype() -> None:
    assert ops.Fill()(np.float64, (1,), Tensor(np.float16(3))).dtype == np.float64
    for value in (3, 3.0, Tensor(3), Tensor(np.float64(3))):
        np.testing.assert_array_equal(ops.Fill()(np.float16, [2, 1], value).asnumpy(), np.full((2, 1), 3, np.float16))
        assert ops.Fill()(np.float16, [2, 1], value).dtype == np.float16


def test_what_is_known_without_values_is_told_of_lists_too() -> None:
    for given in ([[1.0, 2.0, 3.0]], np.ones((1, 3)), Tensor(np.ones((1, 3)))):
        assert (ops.shape(given), ops.rank(given), ops.size(given)) == ((1, 3), 2, 3)
        assert ops.dtype(given) == np.float64
    assert (ops.shape(1.0), ops.rank(1.0), ops.size(1.0)) == ((), 0, 1)
