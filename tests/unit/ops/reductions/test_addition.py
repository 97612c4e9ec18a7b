"""Sums of tensors, of channels, along rows, and whether they are finite."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ShapeError

X = np.random.default_rng(31).integers(1, 9, size=(2, 3, 4, 5))


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_number_of_tensors_is_added(count: int, dtype: Any) -> None:
    terms = [(X * (place + 1)).astype(dtype) for place in range(count)]
    np.testing.assert_array_equal(ops.AddN()(terms).asnumpy(), sum(terms), strict=True)


def test_terms_of_other_dtypes_have_their_common_one_and_others_shapes_are_refused() -> None:
    assert ops.AddN()([np.ones(2, np.int32), np.ones(2, np.float64)]).dtype == np.float64
    with pytest.raises(ShapeError, match=r"tensor 1 has shape \(3,\); it must be \(2,\)"):
        ops.AddN()([np.ones(2), np.ones(3)])


@pytest.mark.parametrize(("of_x", "of_bias"), [(np.float64, np.float64), (np.int32, np.int32), (np.int64, np.float64)])
@pytest.mark.parametrize("dims", [2, 3, 4])
def test_each_channel_has_its_bias(dims: int, of_x: Any, of_bias: Any) -> None:
    x, bias = X[(..., *[0] * (4 - dims))].astype(of_x), np.array([10, 20, 30], of_bias)
    wanted = x + bias.reshape(3, *[1] * (dims - 2))
    np.testing.assert_array_equal(ops.BiasAdd()(x, bias).asnumpy(), wanted)


@pytest.mark.parametrize("dims", [2, 3, 4])
def test_the_gradient_of_a_bias_is_the_sum_of_its_channel(dims: int) -> None:
    x = X[(..., *[0] * (4 - dims))].astype(np.float64)
    of_x, of_bias = ops.grad(lambda a, b: (ops.BiasAdd()(a, b) * x).sum(), (0, 1))(Tensor(x), Tensor(np.zeros(3)))
    np.testing.assert_array_equal(of_x.asnumpy(), x)
    np.testing.assert_array_equal(of_bias.asnumpy(), x.sum((0, *range(2, dims))))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_bias_of_other_channels_is_refused(size: int) -> None:
    with pytest.raises(ShapeError, match=rf"bias has shape \({size},\); it must be \(3,\)"):
        ops.BiasAdd()(X.astype(np.float64), np.ones(size))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_elements_are_summed_from_either_end_with_or_without_their_own(
    axis: int, exclusive: bool, reverse: bool
) -> None:
    x = X[0].astype(np.float64)
    turned = np.flip(x, axis) if reverse else x
    wanted = turned.cumsum(axis) - (turned if exclusive else 0)
    wanted = np.flip(wanted, axis) if reverse else wanted
    operator = ops.CumSum(exclusive, reverse)
    np.testing.assert_allclose(operator(x, axis).asnumpy(), wanted)
    # Summing is linear: the gradient of a weighted sum sums the weights from the other end.
    found = ops.grad(lambda given: (operator(given, axis) * x).sum())(Tensor(np.zeros(x.shape)))
    np.testing.assert_allclose((found.asnumpy() * x).sum(), (wanted * x).sum())
    assert ops.CumSum(exclusive, reverse)(x[:0], 0).shape == (0, 4, 5)


@pytest.mark.parametrize("axis", [3, -4])
def test_a_sum_along_a_dim_that_is_not_there_is_refused(axis: int) -> None:
    with pytest.raises(ShapeError, match=f"axis {axis} is out of range for 3 dims; use -3 to 2"):
        ops.CumSum()(X[0], axis)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (np.float64(1.0), 0.0),
        (np.float64(np.inf), 1.0),
        (np.zeros((0, 2)), 0.0),
        (np.array([np.inf, -np.inf]), 1.0),
        (np.full(4, np.finfo(np.float32).max, np.float32), 0.0),
        (np.full(4, 6e4, np.float16), 0.0),
        (np.array([1.0, np.nan], ml_dtypes.bfloat16), 1.0),
        (np.array([1, 2**62]), 0.0),
        (np.array([True, False]), 0.0),
        (np.array([1 + 1j, complex(0, np.inf)]), 1.0),
    ],
)
def test_a_tensor_is_sound_unless_an_element_is_not_finite(given: Any, wanted: float) -> None:
    np.testing.assert_array_equal(ops.FloatStatus()(given).asnumpy(), np.array([wanted], np.float32), strict=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_half_the_sum_of_squares_is_of_the_dtype_of_the_tensor(dtype: Any) -> None:
    found = ops.L2Loss()(X[0].astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(float(found), (X[0] ** 2).sum() / 2, rtol=1e-3)
    assert float(ops.L2Loss()(np.zeros((0, 3), dtype))) == 0.0
