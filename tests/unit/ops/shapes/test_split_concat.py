"""Pieces of a tensor, and tensors put together: along any dim, of any dtype, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ShapeError

X = np.arange(24.0).reshape(2, 3, 4)
DIMS = [0, 1, 2, -1, -2, -3]

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.Split(1, 2)(X), r"dim 1 of \(2, 3, 4\) cannot be split into 2 equal pieces"),
    (lambda: ops.Split(-1, 3)(X), r"dim 2 of \(2, 3, 4\) cannot be split into 3 equal pieces"),
    (lambda: ops.Split(3, 2)(X), "axis 3 is out of range for 3 dims"),
    (lambda: ops.Concat(1)((X, X[:1])), r"\(1, 3, 4\) cannot be concatenated with \(2, 3, 4\) along dim 1"),
    (lambda: ops.Concat(-1)((X, X[:, :1])), r"\(2, 1, 4\) cannot be concatenated with \(2, 3, 4\) along dim 2"),
    (lambda: ops.Concat(0)((X, X[0])), r"\(3, 4\) cannot be concatenated with \(2, 3, 4\) along dim 0"),
    (lambda: ops.Concat(3)((X, X)), "axis 3 is out of range for 3 dims"),
    (lambda: ops.Stack(4)((X, X)), "axis 4 is out of range for 4 dims"),
    (lambda: ops.Stack()((X, X[:1])), r"\(1, 3, 4\) cannot be stacked with \(2, 3, 4\); they must be equal"),
    (lambda: ops.Concat()(()), "Concat: there is no tensor; give at least one"),
    (lambda: ops.stack([]), "Stack: there is no tensor; give at least one"),
    (lambda: ops.Unstack(3)(X), "axis 3 is out of range for 3 dims"),
    (lambda: ops.Unstack(1, 2)(X), r"num=2 must be the extent of dim 1 of \(2, 3, 4\), or left out"),
    (lambda: ops.Unstack(-1, 3)(X), r"num=3 must be the extent of dim -1 of \(2, 3, 4\), or left out"),
    (lambda: ops.Tile()(X, (1, 0, 1)), r"multiples \(1, 0, 1\) must be at least 1, for each of the 3 dims of x"),
    (lambda: ops.Tile()(X, (2, 2)), r"multiples \(2, 2\) must be at least 1, for each of the 3 dims of x"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_what_does_not_fit_is_refused_with_the_shapes(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call()


@pytest.mark.parametrize("axis", DIMS)
def test_pieces_lie_side_by_side_along_each_dim(axis: int) -> None:
    count = X.shape[axis]
    for pieces, wanted in [
        (ops.Split(axis, count)(X), np.split(X, count, axis)),
        (ops.Unstack(axis, count)(X), list(np.moveaxis(X, axis, 0))),
    ]:
        assert len(pieces) == count
        for piece, one in zip(pieces, wanted, strict=True):
            np.testing.assert_array_equal(piece.asnumpy(), one, strict=True)


@pytest.mark.parametrize("axis", [*DIMS, 3, -4])
def test_tensors_are_stacked_along_a_new_dim_in_any_place(axis: int) -> None:
    np.testing.assert_array_equal(ops.Stack(axis)((X, -X, 2 * X)).asnumpy(), np.stack((X, -X, 2 * X), axis))


@pytest.mark.parametrize("axis", DIMS)
def test_each_part_has_its_part_of_the_gradient(axis: int) -> None:
    y = np.take(X, [0], axis)
    weights = np.random.default_rng(41).normal(size=np.concatenate((X, y), axis).shape)
    of_x, of_y = ops.grad(lambda a, b: (ops.Concat(axis)((a, b)) * weights).sum(), (0, 1))(Tensor(X), Tensor(y))
    first, second = np.split(weights, [X.shape[axis]], axis)
    np.testing.assert_array_equal(of_x.asnumpy(), first)
    np.testing.assert_array_equal(of_y.asnumpy(), second)
    stacked = np.random.default_rng(43).normal(size=np.stack((X, X), axis).shape)
    of_x, of_y = ops.grad(lambda a, b: (ops.Stack(axis)((a, b)) * stacked).sum(), (0, 1))(Tensor(X), Tensor(X))
    np.testing.assert_array_equal(of_x.asnumpy(), np.take(stacked, 0, axis))
    np.testing.assert_array_equal(of_y.asnumpy(), np.take(stacked, 1, axis))


@pytest.mark.parametrize("function", [ops.Concat(), ops.Stack()])
def test_tensors_of_several_dtypes_have_their_common_one(function: Any) -> None:
    assert function((np.ones(2, np.int8), np.ones(2, np.int32))).dtype == np.int32
    assert function((np.ones(2, np.float64), np.ones(2, np.float32), np.ones(2, np.int32))).dtype == np.float64


def test_operators_go_along_the_first_dim_unless_told() -> None:
    assert ops.Concat()((X, X)).shape == (4, 3, 4)
    assert ops.Stack()((X, X)).shape == (2, 2, 3, 4)
    assert [one.shape for one in ops.Unstack()(X)] == [(3, 4)] * 2
    assert [one.shape for one in ops.Split()(X)] == [(2, 3, 4)]
    assert [one.shape for one in ops.Split(output_num=2)(X)] == [(1, 3, 4)] * 2


@pytest.mark.parametrize("multiples", [(1, 1, 1), (2, 1, 3), (1, 2, 1), (3, 1, 1, 2), (2, 2, 1, 1, 1)])
def test_a_tensor_is_repeated_as_numpys_and_sums_the_gradients_of_its_copies(multiples: tuple[int, ...]) -> None:
    wanted = np.tile(X, multiples)
    np.testing.assert_array_equal(ops.Tile()(X, multiples).asnumpy(), wanted, strict=True)
    found = ops.grad(lambda x: ops.Tile()(x, multiples).sum())(Tensor(X)).asnumpy()
    np.testing.assert_array_equal(found, np.full(X.shape, wanted.size / X.size))
    assert ops.Tile()(X[:, :0], multiples).shape == np.tile(X[:, :0], multiples).shape
