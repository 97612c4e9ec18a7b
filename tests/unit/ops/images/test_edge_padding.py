"""Padding that is named as pairs or as one flat row: which dim each number is of, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError, ShapeError

X = np.arange(1.0, 25).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("padding", "pairs"),
    [
        ((1, 2), ((0, 0), (0, 0), (1, 2))),
        ((1, 2, 3, 0), ((0, 0), (3, 0), (1, 2))),
        ((0, 1, 2, 3, 4, 5), ((4, 5), (2, 3), (0, 1))),
        ([np.int64(2), np.int32(1)], ((0, 0), (0, 0), (2, 1))),
        (((1, 0), (0, 2), (3, 1)), ((1, 0), (0, 2), (3, 1))),
        ([[0, 0], [1, 1], [0, 0]], ((0, 0), (1, 1), (0, 0))),
    ],
)
def test_a_flat_row_starts_with_the_last_dim_and_pairs_with_the_first(padding: Any, pairs: Any) -> None:
    for value in (None, 0, -2.5):
        wanted = np.pad(X, pairs, constant_values=0 if value is None else value)
        np.testing.assert_array_equal(ops.pad(X, padding, value=value).asnumpy(), wanted, strict=True)


def test_a_row_for_more_dims_than_there_are_or_for_half_a_dim_is_refused() -> None:
    for padding in ((1, 2, 3), (1,), (0, 0) * 4):
        with pytest.raises(ShapeError, match=r"pad: padding .* must be a \(before, after\) for each of at most 3 "):
            ops.pad(X, padding)
    with pytest.raises(ShapeError, match="for each of at most 1 dims"):
        ops.pad([1.0, 2.0], (0, 0, 1, 1))


def test_pairs_for_some_of_the_dims_and_negative_counts_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"2 pairs of paddings for \(2, 3, 4\); give each of the dims one"):
        ops.pad(X, ((1, 1), (1, 1)))
    with pytest.raises(ConfigurationError, match=r"must be pairs \(before, after\) of at least 0"):
        ops.pad(X, (1, -1))


def test_another_mode_is_refused_with_the_one_that_there_is() -> None:
    with pytest.raises(ConfigurationError, match="pad: mode 'reflect' is not supported; use 'constant'"):
        ops.pad(X, (1, 1), mode="reflect")
