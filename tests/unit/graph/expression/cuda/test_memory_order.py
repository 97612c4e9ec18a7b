"""Terms in the order of memory: what they read and write is what it was, and lies in C order."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from mpiparallel.graph.expression.cuda.memory_order import in_memory_order
from mpiparallel.graph.expression.term import operand


def lying(shape: tuple[int, ...], order: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return numbers of a shape whose dims lie in memory in an order, the slowest first."""
    array = np.arange(float(prod(shape))).reshape([shape[dim] for dim in order])
    return array.transpose([order.index(dim) for dim in range(len(shape))])


@pytest.mark.parametrize(
    ("shape", "order"),
    [((2, 3, 4, 5), (0, 2, 3, 1)), ((2, 3, 1, 5), (0, 3, 1, 2)), ((1, 3, 4, 1), (2, 0, 1, 3)), ((4, 3), (1, 0))],
)
def test_what_lies_in_another_order_is_seen_in_that_of_memory(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    x, y = lying(shape, order), lying(shape, order)
    term = operand(0, shape, x.dtype)
    (turned,), (view,), (target,) = in_memory_order([term * term], [x], [y])
    assert view.flags.c_contiguous
    assert target.flags.c_contiguous
    assert turned.shape == view.shape == target.shape
    assert sorted(view.shape) == sorted(shape)
    np.testing.assert_array_equal(view.reshape(-1), np.arange(prod(shape)))
    assert np.shares_memory(view, x)
