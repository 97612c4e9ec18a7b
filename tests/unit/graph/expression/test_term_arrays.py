"""Arrays over as few dims as possible: neighbouring dims are one where every array allows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.graph.expression.term import operand, reduce
from mpiparallel.graph.expression.term_arrays import TermArrays, merged

X = np.arange(24.0).reshape(2, 3, 4)
WIDE = np.arange(48.0).reshape(2, 3, 8)
Shape = tuple[int, ...]


@pytest.mark.parametrize(
    ("arrays", "shape", "row_rank", "fewer", "rows"),
    [
        ([X], (2, 3, 4), 0, (24,), 0),
        ([X], (2, 3, 4), 1, (6, 4), 1),
        ([X], (2, 3, 4), 2, (2, 12), 1),
        ([X], (2, 3, 4), 3, (24,), 1),
        ([X, X[:1, :1]], (2, 3, 4), 0, (6, 4), 0),
        ([X, X[:, :1, :1]], (2, 3, 4), 0, (2, 12), 0),
        ([X, X[:1, :, :1]], (2, 3, 4), 0, (2, 3, 4), 0),
        ([X[:1, :1], X[:, :, :1]], (2, 3, 4), 0, (6, 4), 0),
        ([X[:1, :1, :1]], (2, 3, 4), 0, (24,), 0),
        ([WIDE[..., ::2]], (2, 3, 4), 0, (24,), 0),
        ([WIDE[:, :2]], (2, 2, 8), 0, (2, 16), 0),
        ([WIDE[..., :4]], (2, 3, 4), 0, (6, 4), 0),
        ([X.transpose(1, 0, 2)], (3, 2, 4), 0, (3, 2, 4), 0),
        ([X[:, :1]], (2, 1, 4), 0, (2, 4), 0),
        ([X[:, :1].copy()], (2, 1, 4), 1, (2, 4), 1),
        ([X[:, :1].copy()], (2, 1, 4), 0, (8,), 0),
        ([X[:1, :1, :1]], (1, 1, 1), 1, (), 0),
        ([X[::-1]], (2, 3, 4), 0, (2, 12), 0),
    ],
)
def test_dims_that_follow_one_another_in_all_arrays_are_one_within_rows_and_before_them(
    arrays: list[Any], shape: Shape, row_rank: int, fewer: Shape, rows: int
) -> None:
    found_shape, found_rows, found = merged(np, shape, row_rank, arrays)
    assert (found_shape, found_rows) == (fewer, rows)
    for one, array in zip(found, arrays, strict=True):
        assert np.shares_memory(one, array)
        assert one.ndim == len(fewer)
        np.testing.assert_array_equal(np.broadcast_to(one, fewer).ravel(), np.broadcast_to(array, shape).ravel())


def test_targets_are_the_roots_that_are_no_totals() -> None:
    x = operand(0, (2, 3, 4), X.dtype)
    double, total = x * 2.0, reduce("sum", x, [0])
    outputs = np.zeros((2, 3, 4)), np.zeros((1, 3, 4))
    bound = TermArrays((2, 3, 4), 0, {x: X}, (double, total), outputs, {total: outputs[1]}, frozenset({total}))
    assert [(root, array is outputs[0]) for root, array in bound.targets()] == [(double, True)]
    assert (bound.is_row(total), bound.is_row(double)) == (True, False)
