"""Which dims of matrices and of batches of them are cut together, and which stay whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec

FLOAT = np.dtype(np.float32)


@pytest.mark.parametrize(
    ("x", "y", "of_x", "of_y", "of_product"),
    [
        ((2, 3), (3, 4), "m k", "k n", "m n"),
        ((5, 2, 3), (3, 4), "b0 m k", "k n", "b0 m n"),
        ((2, 3), (5, 3, 4), "m k", "b0 k n", "b0 m n"),
        ((6, 5, 2, 3), (6, 5, 3, 4), "b0 b1 m k", "b0 b1 k n", "b0 b1 m n"),
        ((6, 1, 2, 3), (1, 5, 3, 4), "b0 - m k", "- b1 k n", "b0 b1 m n"),
        ((7, 6, 5, 2, 3), (6, 5, 3, 4), "b0 b1 b2 m k", "b1 b2 k n", "b0 b1 b2 m n"),
        ((7, 6, 5, 2, 3), (5, 3, 4), "b0 b1 b2 m k", "b2 k n", "b0 b1 b2 m n"),
        ((1, 5, 2, 3), (7, 6, 5, 3, 4), "- b2 m k", "b0 b1 b2 k n", "b0 b1 b2 m n"),
    ],
)
def test_a_leading_dim_is_cut_in_both_where_both_have_it(x: Any, y: Any, of_x: str, of_y: str, of_product: str) -> None:
    found = ops.BatchMatMul().equation(TensorSpec(x, FLOAT), TensorSpec(y, FLOAT))
    told = [tuple(None if label == "-" else label for label in one.split()) for one in (of_x, of_y, of_product)]
    assert (found.inputs, found.outputs) == ((told[0], told[1]), (told[2],))
    assert found.batch == told[2][0]


@pytest.mark.parametrize(
    ("a", "b", "labels"), [(False, True, "m k,n k"), (True, False, "k m,k n"), (True, True, "k m,n k")]
)
def test_a_transposed_matrix_has_its_dims_the_other_way_round(a: bool, b: bool, labels: str) -> None:
    x, y = ((3, 2) if a else (2, 3)), ((4, 3) if b else (3, 4))
    found = ops.MatMul(a, b).equation(TensorSpec(x, FLOAT), TensorSpec(y, FLOAT))
    assert found.inputs == tuple(tuple(one.split()) for one in labels.split(","))
    assert ops.MatMul(a, b)(np.ones(x), np.ones(y)).shape == (2, 4)
