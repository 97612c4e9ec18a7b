"""Parts of a tensor by begin, end and strides, by begin and size, and the place of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ShapeError

X = np.arange(60.0).reshape(3, 4, 5)

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: ops.Slice()(X, (0, 0), (1, 1, 1)),
        r"begin \(0, 0\) and size \(1, 1, 1\) must have one entry for each dim",
    ),
    (lambda: ops.Slice()(X, (0, 0, 0), (1, 1)), "must have one entry"),
    (lambda: ops.Slice()(X, (0, 0, 3), (1, 1, 3)), r"begin \(0, 0, 3\) and size \(1, 1, 3\) do not lie in \(3, 4, 5\)"),
    (lambda: ops.Slice()(X, (-1, 0, 0), (1, 1, 1)), "do not lie in"),
    (lambda: ops.Slice()(X, (1, 0, 0), (-2, 1, 1)), "do not lie in"),
    (lambda: ops.Slice()(X, (4, 0, 0), (-1, 1, 1)), "do not lie in"),
    (
        lambda: ops.StridedSlice()(X, (0, 0), (1,), (1, 1)),
        r"begin \(0, 0\), end \(1,\) and strides \(1, 1\)",
    ),
    (lambda: ops.StridedSlice()(X, (0, 0), (1, 1), (1,)), "must be equally long"),
    (lambda: ops.StridedSlice()(X, (0, 1.5)), r"index \(0, 1\.5\) must be made of integers, slices, None and"),
    (lambda: ops.StridedSlice()(X, (0, True)), "must be made of integers, slices, None and"),
    (lambda: ops.StridedSlice()(X, 3), r"index 3 is out of range for a dim of 3 elements of \(3, 4, 5\)"),
    (lambda: ops.StridedSlice()(X, -4), "index -4 is out of range for a dim of 3 elements"),
    (lambda: ops.StridedSlice()(X, (0, 0, 0, 0)), r"4 indices for the 3 dims of \(3, 4, 5\)"),
    (lambda: ops.StridedSlice()(X, (..., 0, ...)), r"has \.\.\. more than once"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_a_part_that_is_not_there_is_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call()


@pytest.mark.parametrize(
    ("begin", "size", "index"),
    [
        ((0, 1, 2), (2, 2, 3), (slice(0, 2), slice(1, 3), slice(2, 5))),
        ((1, 0, 4), (-1, 4, 1), (slice(1, 3), slice(0, 4), slice(4, 5))),
        ((3, 0, 0), (0, -1, -1), (slice(3, 3), slice(0, 4), slice(0, 5))),
        ((3, 0, 0), (-1, -1, -1), (slice(3, 3), slice(0, 4), slice(0, 5))),
    ],
)
def test_a_part_begins_somewhere_and_has_a_size(begin: Any, size: Any, index: Any) -> None:
    for given in (X, Tensor(X), X.tolist()):
        np.testing.assert_array_equal(ops.Slice()(given, begin, size).asnumpy(), X[index])


INDICES = [
    0,
    -3,
    2,
    (slice(None),),
    (slice(1, None),),
    (slice(None, -1), 1),
    (slice(None, None, 2), slice(None, None, -1)),
    (..., 4),
    (0, ..., -5),
    (None, 1, slice(1, 2), None),
    (slice(2, 1),),
    (slice(-100, 100), slice(3, None, -2)),
    (0, 1, 2),
    (0, slice(None), 1),
    (...,),
    (),
]


@pytest.mark.parametrize("index", INDICES)
def test_the_gradient_lies_where_the_part_was(index: Any) -> None:
    part = X[index]
    np.testing.assert_array_equal(ops.StridedSlice()(X, index).asnumpy(), part)
    weights = np.random.default_rng(61).normal(size=part.shape)
    wanted = np.zeros(X.shape)
    wanted[index] = weights
    found = ops.grad(lambda x: (ops.StridedSlice()(x, index) * weights).sum())(Tensor(X))
    np.testing.assert_array_equal(found.asnumpy(), wanted)
    given = index if isinstance(index, tuple) else (index,)
    np.testing.assert_array_equal(ops.SliceGrad(given)(weights, X).asnumpy(), wanted)


@pytest.mark.parametrize("whole", [slice(None), slice(0, 3), slice(0, 100), slice(-3, None), slice(None, None, 1)])
def test_a_dim_that_is_taken_whole_may_be_cut_however_it_is_written(whole: slice) -> None:
    index = (None, whole, slice(0, 3), 2)
    assert ops.SliceGrad(index).labels((3, 4, 5)) == (("d0", None, None), (None, "d0", None))


def test_every_element_is_taken_unless_a_stride_is_told() -> None:
    np.testing.assert_array_equal(ops.StridedSlice()(X, (1, 0), (3, 2)).asnumpy(), X[1:3, 0:2])
    np.testing.assert_array_equal(ops.StridedSlice()(X, (1, 3), (3, 0), (1, -1)).asnumpy(), X[1:3, 3:0:-1])


def test_several_bits_of_a_mask_are_for_several_dims() -> None:
    found = ops.StridedSlice(5, 2)(X, (1, 1, 1), (2, 2, 2), (1, 1, 1))
    np.testing.assert_array_equal(found.asnumpy(), X[:2, 1:, :2])
    found = ops.StridedSlice(0, 0, 0, 0, 5)(X, (1, 1, 1), (2, 2, 2), (1, 1, 1))
    np.testing.assert_array_equal(found.asnumpy(), X[1, 1:2, 1])
