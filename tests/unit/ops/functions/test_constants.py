"""Tensors of constants have the dtype that is asked for, or the one that is documented."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops

HALVES = np.array([0.5, 1.5], np.float64)

MADE: list[tuple[Callable[[], Tensor], Any]] = [
    (lambda: ops.zeros((2, 3)), np.zeros((2, 3), np.float32)),
    (lambda: ops.zeros(2, np.int16), np.zeros(2, np.int16)),
    (lambda: ops.ones((1, 2)), np.ones((1, 2), np.float32)),
    (lambda: ops.ones(2, np.uint8), np.ones(2, np.uint8)),
    (lambda: ops.eye(2), np.eye(2, dtype=np.float32)),
    (lambda: ops.eye(2, 3, np.int32), np.eye(2, 3, dtype=np.int32)),
    (lambda: ops.full((2,), 3), np.full(2, 3, np.int64)),
    (lambda: ops.full((2,), 3.0), np.full(2, 3, np.float32)),
    (lambda: ops.full((2,), True), np.full(2, True)),
    (lambda: ops.full((2,), 3, np.float16), np.full(2, 3, np.float16)),
    (lambda: ops.zeros_like(HALVES), np.zeros(2)),
    (lambda: ops.zeros_like(HALVES, dtype=np.int8), np.zeros(2, np.int8)),
    (lambda: ops.ones_like(HALVES), np.ones(2)),
    (lambda: ops.ones_like(HALVES, dtype=np.float16), np.ones(2, np.float16)),
    (lambda: ops.arange(3), np.arange(3, dtype=np.int64)),
    (lambda: ops.arange(3.0), np.arange(3, dtype=np.float32)),
    (lambda: ops.arange(1, 7, 2, np.int8), np.array([1, 3, 5], np.int8)),
    (lambda: ops.range(1, 4), np.array([1, 2, 3], np.int64)),
    (lambda: ops.range(0, 1, 0.5), np.array([0, 0.5], np.float32)),
    (lambda: Tensor(HALVES).new_zeros((2,)), np.zeros(2)),
    (lambda: Tensor(HALVES).new_zeros(3, dtype=np.int32), np.zeros(3, np.int32)),
    (lambda: Tensor(HALVES).new_ones(1, 2), np.ones((1, 2))),
    (lambda: Tensor(HALVES).new_full((2,), 7, np.int8), np.full(2, 7, np.int8)),
    (lambda: Tensor(HALVES).fill(4), np.full(2, 4.0)),
]


@pytest.mark.parametrize(("make", "wanted"), MADE)
def test_a_constant_has_the_dtype_that_is_asked_for_or_documented(make: Callable[[], Tensor], wanted: Any) -> None:
    np.testing.assert_array_equal(make().asnumpy(), wanted, strict=True)


def test_nothing_is_said_of_a_tensor_unless_told_what_has_no_effect(remarks: Callable[[], list[str]]) -> None:
    assert ops.tensor([1.0]).tolist() == [1.0]
    assert remarks() == []
    ops.tensor([1.0], const_arg=True)
    assert ["const_arg=True has no effect" in line for line in remarks()] == [True]


def test_a_range_may_have_as_many_numbers_as_maxlen() -> None:
    assert ops.range(0, 10, 1, 10).asnumpy().tolist() == [*range(10)]
