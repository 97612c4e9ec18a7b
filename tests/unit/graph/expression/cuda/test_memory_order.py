"""Terms in the order of memory: what they read and write is what it was, and lies in C order."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from mpiparallel.graph.expression.cuda.memory_order import in_memory_order
from mpiparallel.graph.expression.term import operand, reduce


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


def test_sums_and_arrays_of_fewer_dims_are_turned_with_the_others() -> None:
    shape, order = (2, 3, 4, 5), (0, 2, 3, 1)
    x, column = lying(shape, order), np.arange(3.0).reshape(3, 1, 1)
    product = operand(0, shape, x.dtype) * operand(1, column.shape, column.dtype)
    roots = [reduce("sum", product, (1,)), reduce("max", product, (0, 3)), product + 1.0]
    targets = [np.zeros(root.shape) for root in roots]
    found, views, turned = in_memory_order(roots, [x, column], targets)
    # In memory the dims 0, 2, 3 and 1 follow one another.
    assert [one.number for one in found[:2]] == [(-1,), (-4, -2)]
    assert [one.shape for one in found] == [(2, 4, 5, 1), (1, 4, 1, 3), (2, 4, 5, 3)]
    assert [one.shape for one in views] == [(2, 4, 5, 3), (1, 1, 1, 3)]
    assert [one.shape for one in turned] == [one.shape for one in found]
    assert all(np.shares_memory(one, other) for one, other in zip(turned, targets, strict=True))
    assert found[2].operands[1].number == 1.0


def test_most_of_the_whole_arrays_decide_and_what_lies_in_order_stays_as_it_is() -> None:
    shape, order = (2, 3, 4), (2, 0, 1)
    turned, straight = lying(shape, order), np.zeros(shape)
    terms = [operand(place, shape, turned.dtype) for place in range(3)]
    (found,), _, _ = in_memory_order([terms[0] + terms[1]], [turned, turned], [straight])
    assert found.shape == (4, 2, 3)
    given = [straight, straight, turned]
    roots, operands, outputs = in_memory_order([terms[0] * terms[1] + terms[2]], given, [straight])
    assert roots[0].shape == shape
    assert operands is given
    assert outputs[0] is straight
