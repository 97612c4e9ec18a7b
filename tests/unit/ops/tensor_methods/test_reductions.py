"""Methods that reduce: dtypes, degrees of freedom, infinities, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ConfigurationError, ShapeError

X = np.random.default_rng(19).uniform(0.5, 2.0, size=(2, 3, 4)).astype(np.float32)
NAMES = ["sum", "mean", "max", "min", "prod", "all", "any", "amax", "amin", "var", "std", "norm", "logsumexp"]
INFINITIES = np.array([[-np.inf, -np.inf], [0.0, np.inf], [-np.inf, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("name", ["sum", "mean", "prod"])
def test_a_reduction_has_the_dtype_of_the_tensor_unless_told(name: str) -> None:
    assert getattr(Tensor(X), name)().dtype == np.float32
    assert getattr(Tensor(X), name)(1, dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize("name", ["cumsum", "softmax"])
def test_what_is_computed_along_a_dim_has_the_dtype_of_the_tensor_unless_told(name: str) -> None:
    assert getattr(Tensor(X), name)(1).dtype == np.float32
    assert getattr(Tensor(X), name)(1, dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "var", "std"])
@pytest.mark.parametrize("axis", [None, (), 0, -1, (0, 2), (-1, 1)])
def test_a_reduction_over_any_dims_is_numpys(name: str, axis: Any) -> None:
    dims = None if axis == () else axis
    for kept in (False, True):
        found = getattr(Tensor(X), name)(axis, keep_dims=kept).asnumpy()
        wanted = getattr(np, name)(X.astype(np.float64), axis=dims, keepdims=kept)
        assert found.shape == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("axis", ["axis", "dim"])
@pytest.mark.parametrize("kept", ["keep_dims", "keepdims", "keepdim"])
@pytest.mark.parametrize("name", [*NAMES, "argmax", "argmin"])
def test_the_dims_of_a_reduction_go_by_each_of_their_names(name: str, kept: str, axis: str) -> None:
    found = getattr(Tensor(X > 1 if name in ("all", "any") else X), name)(**{axis: 1, kept: True})
    assert found.shape == (2, 1, 4)


@pytest.mark.parametrize("name", ["all", "any"])
def test_whether_elements_hold_is_a_scalar_unless_told(name: str) -> None:
    assert getattr(Tensor(X > 1), name)().shape == ()
    assert getattr(Tensor(X > 1), name)(0).shape == (3, 4)


@pytest.mark.parametrize("name", ["cumsum", "softmax", "log_softmax", "expand_dims", "squeeze", "chunk", "split"])
def test_a_dim_goes_by_either_of_its_names(name: str) -> None:
    method = getattr(Tensor(X[:, :1]), name)
    others = (1,) if name in ("chunk", "split") else ()
    found = [method(*others, **{word: 1}) for word in ("axis", "dim")]
    for one, other in zip(*(item if isinstance(item, tuple) else (item,) for item in found), strict=True):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


@pytest.mark.parametrize("ddof", [0, 1, 2, 3])
def test_a_variance_without_a_degree_of_freedom_is_infinite_or_no_number(ddof: int) -> None:
    for given in (np.array([1.0, 2.0, 4.0]), np.array([2.0, 2.0, 2.0])):
        with np.errstate(divide="ignore", invalid="ignore"):
            wanted = np.sum((given - given.mean()) ** 2) / np.float64(3 - ddof)
        np.testing.assert_allclose(float(Tensor(given).var(ddof=ddof)), wanted, rtol=1e-12)


@pytest.mark.parametrize("axis", [np.int64(1), np.int32(-1), [0, 2], (1, -2), (0, -1), None])
@pytest.mark.parametrize("ddof", [0, 1])
def test_the_dims_of_a_variance_are_any_integers_and_count_once(axis: Any, ddof: int) -> None:
    dims = 1 if isinstance(axis, tuple) and axis[0] == 1 else tuple(axis) if isinstance(axis, list) else axis
    np.testing.assert_allclose(Tensor(X).var(axis, ddof).asnumpy(), X.var(dims, ddof=ddof), rtol=1e-5)
    np.testing.assert_allclose(ops.std(X, axis, ddof).asnumpy(), X.std(dims, ddof=ddof), rtol=1e-5)


@pytest.mark.parametrize("ddof", [0, 1])
def test_a_variance_has_the_gradient_of_its_formula(ddof: int) -> None:
    x = X.astype(np.float64)
    found = ops.grad(lambda given: given.var((0, 2), ddof).sum())(Tensor(x)).asnumpy()
    np.testing.assert_allclose(found, 2 * (x - x.mean((0, 2), keepdims=True)) / (8 - ddof), rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("order", [0, 3, "nuc"])
def test_a_norm_of_another_order_is_refused_with_those_that_there_are(order: Any) -> None:
    said = rf"Tensor\.norm: ord {order!r} is not one of None, 1, 2, 'fro', infinity, -infinity"
    with pytest.raises(ConfigurationError, match=said):
        Tensor(X).norm(order)


@pytest.mark.parametrize("axis", [1, (0, 2), None])
def test_the_gradient_of_a_logarithm_of_a_sum_of_exponentials_is_softmax(axis: Any) -> None:
    x = X.astype(np.float64) * 300
    shares = np.exp(x - x.max(axis, keepdims=True))
    found = ops.grad(lambda given: given.logsumexp(axis).sum())(Tensor(x)).asnumpy()
    np.testing.assert_allclose(found, shares / shares.sum(axis, keepdims=True), rtol=1e-9, atol=1e-300)


def test_the_logarithm_of_a_sum_of_exponentials_knows_infinities() -> None:
    found = ops.logsumexp(INFINITIES, 1).asnumpy()
    np.testing.assert_allclose(found, [-np.inf, np.inf, 1.0, np.log(2.0)], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.uint8])
@pytest.mark.parametrize("call", [Tensor.mean, Tensor.var, Tensor.std, ops.mean, ops.ReduceMean()])
def test_a_mean_of_integers_is_refused_before_it_is_computed(call: Callable[[Any], Any], dtype: Any) -> None:
    with pytest.raises(ShapeError, match=f"x is of dtype {np.dtype(dtype)}; cast it to a floating-point dtype"):
        call(Tensor(np.ones(3, dtype)))


@pytest.mark.parametrize("order", [None, 2, "fro", 1, np.inf, -np.inf])
@pytest.mark.parametrize("kept", [False, True])
def test_a_norm_of_each_order_is_numpys(order: Any, kept: bool) -> None:
    wanted = np.linalg.norm(X.astype(np.float64), 2 if order == "fro" else order, 1, kept)
    for found in (Tensor(-X).norm(order, 1, kept), Tensor(-X).norm(order, dim=1, keepdim=kept, dtype=np.float64)):
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_the_place_of_an_extreme_element_is_numpys_and_of_int64(name: str, axis: Any) -> None:
    for kept in (False, True):
        found = getattr(Tensor(X), name)(axis, kept).asnumpy()
        wanted = getattr(np, name)(X, axis, keepdims=kept and axis is not None)
        np.testing.assert_array_equal(found, np.asarray(wanted), strict=True)
