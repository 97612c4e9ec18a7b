"""The masks of StridedSlice, a bit for each dim, against NumPy's indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor

X = np.arange(60.0).reshape(3, 4, 5)
BEGIN, END, STRIDES = (1, 1, 2), (3, 4, 5), (1, 2, 1)
MASKED = {
    "begin_mask": lambda dim: slice(None, END[dim], STRIDES[dim]),
    "end_mask": lambda dim: slice(BEGIN[dim], None, STRIDES[dim]),
    "ellipsis_mask": lambda dim: Ellipsis,
    "new_axis_mask": lambda dim: None,
    "shrink_axis_mask": lambda dim: BEGIN[dim],
}


@pytest.mark.parametrize("dim", range(3))
@pytest.mark.parametrize("mask", MASKED)
def test_a_bit_of_a_mask_is_for_its_dim_alone(mask: str, dim: int) -> None:
    index: list[Any] = [slice(*one) for one in zip(BEGIN, END, STRIDES, strict=True)]
    index[dim] = MASKED[mask](dim)
    found = ops.StridedSlice(**{mask: 1 << dim})(Tensor(X), BEGIN, END, STRIDES).asnumpy()
    np.testing.assert_array_equal(found, X[tuple(index)])
