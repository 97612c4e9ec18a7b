"""Reductions of every dtype, of nothing, of ties, and over dims that are named in any way."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ConfigurationError, ShapeError

BFLOAT16 = ml_dtypes.bfloat16
COUNTS = np.random.default_rng(23).integers(1, 3, size=(2, 3, 2))
NUMPYS = {"ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.float16, BFLOAT16, np.float32, np.float64])
@pytest.mark.parametrize("name", NUMPYS)
def test_a_reduction_keeps_the_dtype_whatever_it_is(name: str, dtype: Any) -> None:
    for axis, kept in [((), False), (1, True), ((0, -1), False)]:
        found = getattr(ops, name)(kept)(COUNTS.astype(dtype), axis).asnumpy()
        wanted = getattr(np, NUMPYS[name])(COUNTS, axis=axis if axis != () else None, keepdims=kept)
        # Sums and products wrap as NumPy's of that dtype do; those of floats are exact here, or rounded once.
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(dtype).astype(np.float64), rtol=8e-3)
        assert (found.dtype, found.shape) == (np.dtype(dtype), wanted.shape)


@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int64, np.float16, BFLOAT16, np.float32])
def test_the_extreme_of_nothing_is_what_changes_no_other(name: str, dtype: Any) -> None:
    found = getattr(ops, name)()(np.zeros((0, 2), dtype), 0).asnumpy()
    if np.dtype(dtype) == np.bool_:
        least, most = False, True
    elif np.dtype(dtype).kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    else:
        least, most = -np.inf, np.inf
    np.testing.assert_array_equal(found, np.array([least if name == "ReduceMax" else most] * 2, dtype), strict=True)


def test_whether_nothing_holds_is_as_in_python() -> None:
    nothing = np.zeros((0, 2), bool)
    assert ops.ReduceAll()(nothing, 0).tolist() == [all([])] * 2
    assert ops.ReduceAny()(nothing, 0).tolist() == [any([])] * 2


@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceMean"])
def test_one_element_is_its_own_reduction(name: str) -> None:
    assert getattr(ops, name)()(np.array([[5.0]])).tolist() == 5.0
    assert getattr(ops, name)()(np.float64(5.0)).tolist() == 5.0


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32])
@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin", "ReduceSum"])
def test_what_is_no_number_goes_through_a_reduction_in_silence(name: str, dtype: Any) -> None:
    found = getattr(ops, name)()(np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]], dtype), 1).asnumpy()
    assert np.isnan(found.astype(np.float32)).tolist() == [True, False]


@pytest.mark.parametrize("axis", [np.int64(1), [1], (1,), (1, 1), (-2,)])
def test_a_dim_is_named_by_any_integer_or_sequence(axis: Any) -> None:
    np.testing.assert_array_equal(ops.ReduceSum()(COUNTS, axis).asnumpy(), COUNTS.sum(1))


@pytest.mark.parametrize("axis", [3, -4, (0, 3), (0, -4)])
def test_a_dim_that_is_not_there_is_refused_with_those_that_are(axis: Any) -> None:
    with pytest.raises(ShapeError, match=r"axis \(.*\) is out of range for 3 dims; use -3 to 2$"):
        ops.ReduceMax()(COUNTS, axis)


def test_skipping_a_sum_is_refused_with_what_to_do_instead() -> None:
    assert ops.ReduceSum(False, False)(COUNTS).tolist() == COUNTS.sum()
    with pytest.raises(ConfigurationError, match=r"skip_mode=True.*leave the operator out where there is no axis"):
        ops.ReduceSum(False, True)


def gradient_of(name: str, x: Any, axis: Any, kept: bool) -> Any:
    return ops.grad(lambda given: (getattr(ops, name)(kept)(given, axis) * 1.0).sum())(Tensor(x)).asnumpy()


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("name", "axis", "wanted"),
    [
        ("ReduceMax", (), [[0, 0, 0.5], [0.5, 0, 0]]),
        ("ReduceMax", 0, [[0, 0.5, 1], [1, 0.5, 0]]),
        ("ReduceMin", (), [[1, 0, 0], [0, 0, 0]]),
        ("ReduceMin", 1, [[1, 0, 0], [0, 0.5, 0.5]]),
        ("ReduceMean", 1, [[1 / 3] * 3] * 2),
        ("ReduceSum", 0, [[1] * 3] * 2),
    ],
)
def test_equal_elements_share_the_gradient(name: str, axis: Any, wanted: Any, kept: bool) -> None:
    x = np.array([[0.0, 2.0, 3.0], [3.0, 2.0, 2.0]])
    np.testing.assert_allclose(gradient_of(name, x, axis, kept), wanted)


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        ([2.0, -1.0, 4.0], [-4.0, 8.0, -2.0]),
        ([2.0, 0.0, 4.0], [0.0, 8.0, 0.0]),
        ([0.0, 0.0, 4.0], [0.0, 0.0, 0.0]),
        ([-1.0, -1.0, 0.0], [0.0, 0.0, 1.0]),
    ],
)
def test_each_factor_has_the_product_of_the_others_as_its_gradient(x: list[float], wanted: list[float]) -> None:
    np.testing.assert_array_equal(gradient_of("ReduceProd", np.array([x]), 1, False), [wanted])
    np.testing.assert_array_equal(gradient_of("ReduceProd", np.array([x]), (), True), [wanted])


@pytest.mark.parametrize("name", ["ReduceAll", "ReduceAny"])
def test_numbers_do_not_hold_or_fail_to(name: str) -> None:
    with pytest.raises(ShapeError, match="x is of dtype int64; compare it, or cast it to bool"):
        getattr(ops, name)()(COUNTS)
