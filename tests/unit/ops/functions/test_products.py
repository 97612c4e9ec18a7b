"""Products of vectors, matrices and batches of them, against those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording

GENERATOR = np.random.default_rng(5)
WEIGHT = GENERATOR.normal(size=(2, 3))
BIAS = GENERATOR.normal(size=2)


@pytest.mark.parametrize("bias", [None, BIAS])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (5, 4, 3), (2, 5, 4, 3), (0, 3)])
def test_a_dense_layer_is_a_product_for_each_row_of_any_tensor(shape: tuple[int, ...], bias: Any) -> None:
    x = GENERATOR.normal(size=shape)
    wanted = x @ WEIGHT.T + (0 if bias is None else bias)
    found = ops.dense(x, WEIGHT, bias)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)),
        ((1, 3), (3, 1)),
        ((1,), (1, 1)),
        ((1, 1), (1,)),
    ],
)
def test_a_product_has_the_shape_and_the_elements_of_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = GENERATOR.normal(size=left), GENERATOR.normal(size=right)
    found, wanted = ops.matmul(x, y), np.matmul(x, y)
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("left", "right", "name"), [((2, 3), (3, 4), "MatMul"), ((3,), (3,), "MatMul"), ((5, 2, 3), (3, 4), "BatchMatMul")]
)
def test_two_matrices_are_multiplied_by_the_operator_of_matrices(
    left: tuple[int, ...], right: tuple[int, ...], name: str
) -> None:
    trace = Trace()
    values = [trace.graph.add_input(place, Tensor(np.ones(of)).spec) for place, of in {"x": left, "y": right}.items()]
    with recording(trace):
        x, y = map(Tensor.of_value, values)
        ops.matmul(x, y)
        if len(left) > 1:
            _ = (x @ y, x @ np.ones(right), np.ones(left) @ y)
    products = [node.operator.name for node in trace.graph.nodes if "MatMul" in node.operator.name]
    assert products == [name] * (4 if len(left) > 1 else 1)


def test_a_matrix_from_the_left_takes_batches_on_either_side() -> None:
    x, batch, matrix = GENERATOR.normal(size=(2, 3)), GENERATOR.normal(size=(5, 3, 4)), GENERATOR.normal(size=(3, 4))
    np.testing.assert_allclose((x @ Tensor(batch)).asnumpy(), x @ batch, rtol=1e-12)
    np.testing.assert_allclose((batch.swapaxes(1, 2) @ Tensor(matrix)).asnumpy(), batch.swapaxes(1, 2) @ matrix)
    np.testing.assert_allclose((Tensor(x) @ matrix).asnumpy(), x @ matrix, rtol=1e-12)
    np.testing.assert_allclose((Tensor(x) @ batch).asnumpy(), x @ batch, rtol=1e-12)


def test_a_product_and_a_sum_are_weighted_by_nothing_unless_told() -> None:
    x, y, z = GENERATOR.normal(size=(2, 4)), GENERATOR.normal(size=(2, 3)), GENERATOR.normal(size=(3, 4))
    np.testing.assert_allclose(ops.addmm(x, y, z).asnumpy(), x + y @ z, rtol=1e-12)
