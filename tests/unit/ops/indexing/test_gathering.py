"""Picking by index: any dtype and place, what is out of range, and sums of what was picked twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ConfigurationError, ShapeError

GENERATOR = np.random.default_rng(59)
X = GENERATOR.normal(size=(4, 3, 5))
TABLES = GENERATOR.normal(size=(2, 3, 4, 5))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("axis", [0, 1, -1, -3])
@pytest.mark.parametrize("shape", [(), (0,), (6,), (2, 3)])
def test_slices_stand_in_the_place_of_their_dim(shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    indices = GENERATOR.integers(0, X.shape[axis], size=shape).astype(dtype)
    np.testing.assert_array_equal(ops.Gather()(X, indices, axis).asnumpy(), np.take(X, indices, axis), strict=True)


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
@pytest.mark.parametrize("shape", [(), (0,), (6,), (2, 3)])
@pytest.mark.parametrize("width", [1, 16])
def test_a_slice_that_was_picked_twice_has_both_gradients(width: int, shape: tuple[int, ...], axis: int) -> None:
    x = np.repeat(X, width, 1 if axis in (0, -3) else 0)
    indices = GENERATOR.integers(0, x.shape[axis], size=shape)
    picked = np.take(x, indices, axis)
    weights = GENERATOR.normal(size=picked.shape)
    found = ops.grad(lambda table: (ops.Gather()(table, indices, axis) * weights).sum())(Tensor(x)).asnumpy()
    wanted = np.zeros(x.shape)
    place = axis % 3
    rows = np.moveaxis(weights, range(place, place + indices.ndim), range(indices.ndim))
    np.add.at(np.moveaxis(wanted, place, 0), indices.reshape(-1), rows.reshape(-1, *rows.shape[indices.ndim :]))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("batch", "axis", "indices"),
    [(1, 1, (2, 6)), (1, 2, (2, 6)), (1, -1, (2, 2, 2)), (2, 2, (2, 3, 6)), (2, 3, (2, 3)), (-1, 2, (2, 3, 6))],
)
def test_each_table_of_a_batch_has_indices_of_its_own(batch: int, axis: int, indices: tuple[int, ...]) -> None:
    dims, extent = (batch if batch > 0 else len(indices) + batch), TABLES.shape[axis]
    chosen = GENERATOR.integers(0, extent, size=indices)
    found = ops.Gather(batch)(TABLES, chosen, axis).asnumpy()
    weights = GENERATOR.normal(size=found.shape)
    gradient = ops.grad(lambda table: (ops.Gather(batch)(table, chosen, axis) * weights).sum())(Tensor(TABLES))
    wanted = np.zeros(TABLES.shape)
    for place in np.ndindex(TABLES.shape[:dims]):
        inner = axis % 4 - dims
        np.testing.assert_array_equal(found[place], np.take(TABLES[place], chosen[place], inner))
        for number in np.ndindex(chosen[place].shape):
            where = (slice(None),) * inner
            wanted[place][(*where, chosen[place][number])] += weights[place][(*where, *number)]
    np.testing.assert_allclose(gradient.asnumpy(), wanted, rtol=1e-12)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.Gather()(X, [0, 4]), "Gather: index 4 is out of range for the 4 elements of dim 0; give indices of 0"),
    (lambda: ops.Gather()(X, [0, 3], 1), "index 3 is out of range for the 3 elements of dim 1; give indices of 0 to 2"),
    (lambda: ops.Gather()(X, [-1], -1), "index -1 is out of range for the 5 elements of dim 2; give indices of 0 to 4"),
    (lambda: ops.Gather(1)(TABLES, [[3], [0]], 1), "Gather: index 3 is out of range for the 3 elements of dim 1"),
    (lambda: ops.GatherGrad()([4], X[:1], X), "GatherGrad: index 4 is out of range for the 4 elements of dim 0"),
    (lambda: ops.GatherLast()(X[0], [0, 5, 1]), "GatherLast: index 5 is out of range for the 5 elements of dim 1"),
    (lambda: ops.GatherLastGrad()([1.0], [5], X[0, :1]), "GatherLastGrad: index 5 is out of range for the 5 elements"),
    (lambda: ops.GatherLast()(X, [0, 1]), r"index has shape \(2,\); it must be \(4, 3\)"),
    (lambda: ops.GatherLast()(X[0], [0.0, 1.0, 2.0]), "index is of dtype float32; cast it to an integer dtype"),
    (lambda: ops.Gather()(X, [0], 3), "axis 3 is out of range for 3 dims; use -3 to 2"),
    (lambda: ops.Gather(3)(TABLES, np.zeros((2, 3), int), 3), "batch_dims 3 must be at most axis 3 and the 2 dims"),
    (lambda: ops.Gather(1)(TABLES, np.zeros((3, 1), int), 1), r"input_indices has shape \(3,\); it must be \(2,\)"),
    (lambda: ops.Gather(1)(TABLES, np.zeros((2, 1)), 1), "input_indices is of dtype float64; cast it to an integer d"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_what_cannot_be_picked_is_refused_with_what_can(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call()


def test_the_last_index_and_the_first_are_in_range() -> None:
    np.testing.assert_array_equal(ops.Gather()(X, [0, 3]).asnumpy(), X[[0, 3]])
    np.testing.assert_array_equal(ops.GatherLast()(X[0], [0, 4, 2]).asnumpy(), X[0][range(3), [0, 4, 2]])
    assert ops.Gather()(X[:0], np.zeros((0,), int)).shape == (0, 3, 5)


@pytest.mark.parametrize("batch", [0.5, "1", None])
def test_the_dims_of_a_batch_are_an_integer(batch: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Gather: batch_dims=.* must be an integer"):
        ops.Gather(batch)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_an_index_is_marked_along_a_new_dim_and_one_out_of_range_nowhere(axis: int, dtype: Any) -> None:
    indices = np.array([[0, 3, 2], [-1, 4, 1]], dtype)
    found = ops.OneHot(axis)(indices, 4, 5, -5).asnumpy()
    marked = np.where(indices[..., None] == np.arange(4), 5, -5)
    np.testing.assert_array_equal(found, np.moveaxis(marked, -1, axis))
    assert ops.OneHot(axis)(indices, 0).size == 0


def test_marks_are_1_and_0_in_float32_unless_told() -> None:
    np.testing.assert_array_equal(ops.OneHot()([1], 2).asnumpy(), np.array([[0, 1]], np.float32), strict=True)
    for wrong, said in [([0.5], "indices is of dtype float32; cast it to an integer dtype")]:
        with pytest.raises(ShapeError, match=said):
            ops.OneHot()(wrong, 2)
    with pytest.raises(ShapeError, match=r"on_value has shape \(1,\); it must be \(\)"):
        ops.OneHot()([1], 2, np.ones(1), 0.0)
    with pytest.raises(ShapeError, match=r"^depth -1 must be at least 0"):
        ops.OneHot()([1], -1)
    with pytest.raises(ShapeError, match="axis 2 is out of range for 2 dims; use -2 to 1"):
        ops.OneHot(2)([1], 2)


def test_marks_are_of_the_dtype_of_their_number_and_a_gradient_of_that_of_what_comes_back() -> None:
    assert ops.OneHot()(np.array([1], np.int8), 2, 5, -5).dtype == np.int64
    assert ops.OneHot()(np.array([1], np.int8), 2, np.float16(5), np.float16(0)).dtype == np.float16
    assert ops.SliceGrad((slice(1),))(np.ones(1, np.float32), np.ones(2)).dtype == np.float32
    assert ops.GatherLastGrad()(np.ones(1, np.float32), np.array([1]), np.ones((1, 2))).dtype == np.float32
    assert ops.GatherGrad()(np.array([1]), np.ones((1, 2), np.float32), np.ones((3, 2))).dtype == np.float32
