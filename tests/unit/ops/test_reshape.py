"""Shapes that operators are asked for: -1 has one meaning, and what does not fit is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ShapeError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("shape", "target"), [((-1, 3), (2, 3)), ((-1, -1), (2, 3)), ((2, -1), (2, 3)), ((4, -1, 3), (4, 2, 3))]
)
def test_an_extent_of_minus_1_is_that_of_the_tensor(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    expected = np.broadcast_to(X, target)
    for result in (ops.BroadcastTo(shape)(X), ops.broadcast_to(X, shape), Tensor(X).broadcast_to(shape)):
        assert result.asnumpy().tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(-1, 2, 3), (-1, -1, 3)])
def test_a_new_dim_needs_a_number(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="the first 1 dims are new; give them numbers"):
        ops.BroadcastTo(shape)(X)


@pytest.mark.parametrize("shape", [(3,), (-2, 3), (4, 3), (2, 0)])
def test_a_shape_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="broadcast"):
        ops.BroadcastTo(shape)(X)


@pytest.mark.parametrize("permutation", [(0, 2), (0, -3), (0, 0), (0,)])
def test_a_permutation_names_each_dim_once(permutation: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"permutation|out of range"):
        ops.Transpose()(X, permutation)
