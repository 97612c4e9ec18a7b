"""Shapes that functions make: flattened, padded, and of tensors that are given as lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.errors import ShapeError

X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("shape", "dims", "wanted"),
    [
        ((3,), {}, (3, 1)),
        ((2, 3, 4), {}, (2, 12)),
        ((2, 3, 4), {"start_dim": 0}, (24,)),
        ((2, 3, 4), {"end_dim": -2}, (2, 3, 4)),
        ((2, 3, 4), {"end_dim": 1}, (2, 3, 4)),
        ((2, 3, 4), {"start_dim": 0, "end_dim": 1}, (6, 4)),
        ((2, 3, 4), {"start_dim": 2}, (2, 3, 4)),
        ((2, 3, 4, 5), {"end_dim": 2}, (2, 12, 5)),
        ((0, 3, 4), {"start_dim": 1, "end_dim": 2}, (0, 12)),
    ],
)
def test_a_tensor_is_flattened_between_two_dims(shape: Any, dims: dict[str, int], wanted: Any) -> None:
    x = np.arange(float(np.prod(shape))).reshape(shape)
    found = ops.flatten(x, **dims).asnumpy()
    assert found.shape == wanted
    np.testing.assert_array_equal(found.ravel(), x.ravel())


def test_a_number_is_not_flattened_to_rows() -> None:
    with pytest.raises(ShapeError, match="x has no dims; it needs at least one, for the rows"):
        ops.flatten(np.float32(1.0))


def test_a_list_is_padded_as_an_array_is_with_zeros_unless_told() -> None:
    assert ops.pad([[1.0, 2.0]], (1, 0)).tolist() == [[0.0, 1.0, 2.0]]
    assert ops.pad([[1.0, 2.0]], (1, 0), value=5.0).tolist() == [[5.0, 1.0, 2.0]]
    assert ops.pad([1.0], (0, 1), "".join(["con", "stant"])).tolist() == [1.0, 0.0]


def test_a_dim_of_one_element_is_taken_out_by_its_number() -> None:
    assert ops.squeeze(X[:, None, :, :1], 1).shape == (2, 3, 1)
    assert ops.squeeze(X[:, None, :, :1], (-1,)).shape == (2, 1, 3)
    assert ops.squeeze(X[:, None, :, :1]).shape == (2, 3)


def test_rounding_takes_arrays_and_lists() -> None:
    assert ops.round([0.5, 1.5, 2.25]).tolist() == [0.0, 2.0, 2.0]
    assert ops.round(np.array([0.125, 2.25]), decimals=1).tolist() == [0.1, 2.2]
