"""Indices of tensors and arrays, of any type of integers, in any place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor
from mpiparallel.errors import ShapeError

X = np.arange(120.0).reshape(2, 3, 4, 5)


@pytest.mark.parametrize("made", [np.array, Tensor, list], ids=["array", "tensor", "list"])
@pytest.mark.parametrize(
    "around",
    [
        (slice(None), "here"),
        (..., "here"),
        (..., "here", slice(1, 2)),
        (..., "here", 0),
        (..., "here", None),
        (0, "here"),
        (0, slice(None), "here", 1),
        (slice(1), 2, "here"),
        (None, 1, "here"),
        (..., "here", 1, slice(None)),
        (..., None, "here"),
        (np.int64(1), np.int64(2), "here"),
        (0, ..., "here"),
        ("here", ..., 0),
    ],
)
def test_indices_stand_in_the_place_of_their_dim(around: tuple[Any, ...], made: Any) -> None:
    places = [-1, 0, -2, 1]
    place = next(at for at, item in enumerate(around) if isinstance(item, str))
    found = Tensor(X)[(*around[:place], made(places), *around[place + 1 :])].asnumpy()
    # Each slice by itself: NumPy puts the dims of several arrays in front.
    pieces = [X[(*around[:place], slice(one, one + 1 or None), *around[place + 1 :])] for one in places]
    dims = [at for at in range(found.ndim) if found.shape[at] != pieces[0].shape[at]]
    np.testing.assert_array_equal(found, np.concatenate(pieces, dims[0]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64, np.uint64])
@pytest.mark.parametrize("made", [np.array, Tensor], ids=["array", "tensor"])
def test_short_integers_index_a_long_dim(made: Any, dtype: Any) -> None:
    x = np.arange(300.0)
    places = np.array([0, 2, 127] if dtype().dtype.kind == "u" else [-1, 2, -128], dtype)
    np.testing.assert_array_equal(Tensor(x)[made(places)].asnumpy(), x[places])


@pytest.mark.parametrize("extent", [127, 128, 129])
def test_a_dim_as_long_as_an_integer_of_8_bits_holds_is_indexed_from_the_right(extent: int) -> None:
    x = np.arange(float(extent))
    places = np.array([-1, -2, 0, 1, -127], np.int8)
    for given in (places, Tensor(places)):
        np.testing.assert_array_equal(Tensor(x)[given].asnumpy(), x[places])


@pytest.mark.parametrize("made", [np.array, Tensor, list], ids=["array", "tensor", "list"])
@pytest.mark.parametrize("wrong", [4, -5])
def test_an_index_that_is_out_of_range_on_either_side_is_refused(made: Any, wrong: int) -> None:
    with pytest.raises(ShapeError, match="is out of range for the 4 elements of dim 2"):
        Tensor(X)[:, :, made([0, wrong])]


def test_a_tensor_is_unchanged_by_a_plus() -> None:
    np.testing.assert_array_equal((+Tensor(X)).asnumpy(), X)
