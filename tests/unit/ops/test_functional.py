from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel.ops
import mpiparallel.ops.functional as F
import mpiparallel.ops.operations as P
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor

X = np.arange(1.0, 25.0).reshape(4, 6) / 7
Y = X[::-1] * 0.5
V = X[0]
IDS = np.array([3, 0])

TABLE: list[tuple[Callable[[], Any], Any]] = [
    (lambda: F.add(X, Y), X + Y),
    (lambda: F.sub(X, Y), X - Y),
    (lambda: F.mul(X, 2.0), X * 2),
    (lambda: F.div(X, Y), X / Y),
    (lambda: F.pow(X, 2.0), X * X),
    (lambda: F.maximum(X, Y), np.maximum(X, Y)),
    (lambda: F.minimum(X, Y), np.minimum(X, Y)),
    (lambda: F.equal(X, X), X == X),
    (lambda: F.not_equal(X, Y), X != Y),
    (lambda: F.less(X, Y), X < Y),
    (lambda: F.less_equal(X, Y), X <= Y),
    (lambda: F.greater(X, Y), X > Y),
    (lambda: F.greater_equal(X, Y), X >= Y),
    (lambda: F.logical_and(X > 1, Y > 1), (X > 1) & (Y > 1)),
    (lambda: F.logical_or(X > 1, Y > 1), (X > 1) | (Y > 1)),
    (lambda: F.logical_not(X > 1), X <= 1),
    (lambda: F.neg(X), -X),
    (lambda: F.abs(-X), X),
    (lambda: F.sign(-X), -np.ones_like(X)),
    (lambda: F.exp(X), np.exp(X)),
    (lambda: F.log(X), np.log(X)),
    (lambda: F.sqrt(X), np.sqrt(X)),
    (lambda: F.square(X), X * X),
    (lambda: F.tanh(X), np.tanh(X)),
    (lambda: F.sigmoid(X), 1 / (1 + np.exp(-X))),
    (lambda: F.relu(X - 1), np.maximum(X - 1, 0)),
    (lambda: F.gelu(X), P.GeLU()(X).asnumpy()),
    (lambda: F.select(X > 1, X, 0.0), np.where(X > 1, X, 0)),
    (lambda: F.where(X > 1, X, Y), np.where(X > 1, X, Y)),
    (lambda: F.matmul(X, Y.T), X @ Y.T),
    (lambda: F.matmul(X, V), X @ V),
    (lambda: F.matmul(V, X.T), V @ X.T),
    (lambda: F.matmul(V, V), V @ V),
    (lambda: F.matmul(X.reshape(2, 2, 6), X.T), X.reshape(2, 2, 6) @ X.T),
    (lambda: F.reduce_sum(X, 0), X.sum(0)),
    (lambda: F.reduce_mean(X, 1, True), X.mean(1, keepdims=True)),
    (lambda: F.mean(X), X.mean()),
    (lambda: F.reduce_max(X, -1), X.max(-1)),
    (lambda: F.reduce_min(X), X.min()),
    (lambda: F.softmax(X, 0), np.exp(X) / np.exp(X).sum(0)),
    (lambda: F.log_softmax(X, 0), np.log(np.exp(X) / np.exp(X).sum(0))),
    (lambda: F.layer_norm(X, (6,), V, V, 0.0), (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True) * V + V),
    (lambda: F.gather(X, IDS, 1), X[:, IDS]),
    (lambda: F.one_hot(IDS, 4, 1.0, 0.0), np.eye(4)[IDS]),
    (lambda: F.concat([X, Y], 1), np.concatenate([X, Y], 1)),
    (lambda: F.stack([X, Y], 1), np.stack([X, Y], 1)),
    (lambda: F.split(X, axis=1, output_num=3)[1], X[:, 2:4]),
    (lambda: F.split(X, 2, 1)[1], X[:, 2:4]),
    (lambda: F.split(X, 4, 1)[1], X[:, 4:]),
    (lambda: F.split(X, (1, 3, 2), -1)[1], X[:, 1:4]),
    (lambda: F.flatten(X.reshape(2, 2, 2, 3), start_dim=0, end_dim=-2), X.reshape(8, 3)),
    (lambda: F.topk(X, 2, 0)[0], np.sort(X, 0)[:-3:-1]),
    (lambda: F.topk(X, 2, 0, False)[1], np.argsort(X, 0)[:2]),
    (lambda: F.layer_norm(X, (6,), eps=0.0), (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)),
    (lambda: F.reshape(X, (3, -1)), X.reshape(3, 8)),
    (lambda: F.transpose(X, (1, 0)), X.T),
    (lambda: F.broadcast_to(V, (3, 6)), np.broadcast_to(V, (3, 6))),
    (lambda: F.expand_dims(X, 1), X[:, None]),
    (lambda: F.squeeze(X[:, None]), X),
    (lambda: F.cast(X, np.int32), X.astype(np.int32)),
    (lambda: F.zeros_like(X), 0 * X),
    (lambda: F.ones_like(X), 0 * X + 1),
    (lambda: F.fill(np.int64, (2, 3), 7), np.full((2, 3), 7)),
    (lambda: F.stop_gradient(X), X),
    (lambda: F.dropout(X, 0.5, training=False), X),
    (lambda: F.dropout(X, 0.0), X),
    (lambda: F.tensor(X), X),
    (lambda: F.scalar_to_tensor(2), np.float32(2)),
    (lambda: F.scalar_to_array(2), np.int64(2)),
    (lambda: F.floor_div(X, 0.3), X // 0.3),
    (lambda: F.floor_mod(X, 0.3), X % 0.3),
    (lambda: F.rsqrt(X), X**-0.5),
    (lambda: F.reciprocal(X), 1 / X),
    (lambda: F.reciprocal(IDS + 1), 1 / (IDS + 1)),
    (lambda: F.sin(X), np.sin(X)),
    (lambda: F.cos(X), np.cos(X)),
    (lambda: F.floor(X), np.floor(X)),
    (lambda: F.masked_fill(X, X > 1, 9.0), np.where(X > 1, 9, X)),
    (lambda: F.clip_by_value(X, 1.0, 2.0), np.clip(X, 1, 2)),
    (lambda: F.clip_by_value(X, clip_value_max=2.0), np.minimum(X, 2)),
    (lambda: F.clip_by_norm(X, 2.0), X * 2 / np.linalg.norm(X)),
    (lambda: F.clip_by_norm(X, 4.0, axis=1), X * np.minimum(4 / np.linalg.norm(X, axis=1, keepdims=True), 1)),
    (lambda: F.pad(X, (1, 2), value=3.0), np.pad(X, ((0, 0), (1, 2)), constant_values=3)),
    (lambda: F.pad(X, (0, 1, 2, 0)), np.pad(X, ((2, 0), (0, 1)))),
    (lambda: F.pad(X, ((1, 1), (0, 2))), np.pad(X, ((1, 1), (0, 2)))),
    (lambda: F.slice(X, (1, 2), (2, -1)), X[1:3, 2:]),
    (lambda: F.strided_slice(X, (0, 1), (4, 6), (2, 3)), X[0:4:2, 1:6:3]),
    (
        lambda: F.strided_slice(X, (0, 1, 9), (1, 9, 6), (1, 1, -1), ellipsis_mask=1, new_axis_mask=2),
        X[..., None, 9:6:-1],
    ),
    (lambda: F.tile(X, (2, 1, 3)), np.tile(X, (2, 1, 3))),
    (lambda: F.flatten(X.reshape(4, 2, 3)), X),
    (lambda: F.unstack(X, 1)[2], X[:, 2]),
    (lambda: F.zeros(3), np.zeros(3)),
    (lambda: F.ones((2, 1), np.int32), np.ones((2, 1))),
    (lambda: F.full((2, 3), 1.5), np.full((2, 3), 1.5)),
    (lambda: F.arange(5), np.arange(5)),
    (lambda: F.arange(1, 2, 0.25, np.float64), np.arange(1, 2, 0.25)),
    (lambda: F.range(F.tensor(5), 0, -2), np.arange(5, 0, -2)),
    (lambda: F.eye(2, 3), np.eye(2, 3)),
    (lambda: F.reduce_prod(X, 1), X.prod(1)),
    (lambda: F.reduce_all(X > 1, 1), (X > 1).all(1)),
    (lambda: F.reduce_any(X > 1, 1, True), (X > 1).any(1, keepdims=True)),
    (lambda: F.argmax(X[::-1]), np.argmax(X[::-1])),
    (lambda: F.argmax(-X, 1, True), np.argmax(-X, 1, keepdims=True)),
    (lambda: F.argmin(X[::-1], 0), np.argmin(X[::-1], 0)),
    (lambda: F.topk(X, 2)[0], X[:, :-3:-1]),
    (lambda: F.cumsum(X, 1), X.cumsum(1)),
    (lambda: F.cumsum(X > 1, 0, np.int32), (X > 1).cumsum(0)),
    (lambda: F.addn([X, Y, X]), X + Y + X),
    (lambda: F.addn([IDS, IDS, IDS]), 3 * IDS),
    (lambda: F.bias_add(X, V), X + V),
    (lambda: F.adaptive_avg_pool2d(X.reshape(2, 1, 2, 6), (1, 3)), X.reshape(2, 1, 2, 3, 2).mean((2, 4))[:, :, None]),
]


@pytest.mark.parametrize(("call", "wanted"), TABLE)
def test_a_function_computes_what_numpy_does(call: Callable[[], Tensor], wanted: Any) -> None:
    actual = call()
    assert isinstance(actual, Tensor)
    assert actual.shape == np.shape(wanted)
    np.testing.assert_allclose(actual.asnumpy(), wanted, rtol=1e-6, atol=1e-12)


def test_shapes_are_known_without_values() -> None:
    x = Tensor(X)
    assert (F.shape(x), F.rank(x), F.size(x), F.dtype(x)) == ((4, 6), 2, 24, np.float64)


def test_dropout_of_nothing_is_what_it_is_given_and_of_all_is_refused() -> None:
    x = Tensor(np.ones(3, np.float32))
    assert mpiparallel.ops.dropout(x, p=0.0) is x
    with pytest.raises(ConfigurationError, match="must be above 0 and at most 1"):
        mpiparallel.ops.dropout(x, p=1.0)


def test_dropout_keeps_or_scales_each_element() -> None:
    kept = F.dropout(X, 0.25).asnumpy()
    assert 0 < np.count_nonzero(kept) < X.size
    np.testing.assert_allclose(kept[kept != 0], (X / 0.75)[kept != 0])


def test_assignments_change_the_parameter() -> None:
    counter = Parameter(np.zeros(2), "counter")
    F.assign(counter, np.array([5.0, 6.0]))
    F.assign_add(counter, 2.0)
    F.assign_sub(counter, np.array([1.0, 0.0]))
    assert counter.asnumpy().tolist() == [6.0, 8.0]


def test_what_is_not_supported_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="div: rounding_mode 'ceil' is not one of None, 'floor', 'trunc'"):
        F.div(X, Y, rounding_mode="ceil")
    with pytest.raises(ConfigurationError, match=r"Gather: batch_dims=0\.5 must be an integer"):
        P.Gather(0.5)
    with pytest.raises(ConfigurationError, match="use 'none' or 'tanh'"):
        F.gelu(X, approximate="erf")
    with pytest.raises(ShapeError, match="must be the last dims"):
        F.layer_norm(X, (5,), V, V)
    for mode in ("reflect", "circular"):
        with pytest.raises(ConfigurationError, match=f"mode '{mode}' is not supported; use 'constant'"):
            F.pad(X, (1, 1), mode)
    with pytest.raises(ShapeError, match=r"must be a .before, after. for each of at most 2 dims"):
        F.pad(X, (1, 1, 1))
    with pytest.raises(ConfigurationError, match=r"must be pairs .before, after. of at least 0"):
        F.pad(X, (-1, 0))
    with pytest.raises(ShapeError, match=r"size .3, 1. do not lie in .4, 6."):
        F.slice(X, (2, 0), (3, 1))
    for wrong in (0, (2, -1), "2", (), 1.5, True):
        with pytest.raises(ShapeError, match=r"Tensor.split: pieces of .* elements; give an integer of at least 1"):
            F.split(X, wrong)
    with pytest.raises(ShapeError, match=r"sections .1, 1. add up to 2, but dim 0 has 4"):
        F.split(X, (1, 1))
    with pytest.raises(ShapeError, match="start_dim 1 is behind end_dim 0"):
        F.flatten(X, start_dim=1, end_dim=0)
    with pytest.raises(ShapeError, match="k 7 must be 1 to 6"):
        F.topk(X, 7)
    with pytest.raises(ShapeError, match=r"multiples .2,. must be at least 1, for each of the 2 dims"):
        F.tile(X, (2,))
    with pytest.raises(ShapeError, match=r"dim 1 of .2, 0. has no element"):
        F.argmax(np.ones((2, 0)), 1)
    with pytest.raises(ConfigurationError, match="delta is 0"):
        F.arange(0, 2, 0)
    with pytest.raises(ConfigurationError, match="11 numbers are more than maxlen 10"):
        F.range(0, 11, 1, 10)
    with pytest.raises(ConfigurationError, match="max_norm 0 must be above 0"):
        F.clip_by_norm(X, 0)
    with pytest.raises(ConfigurationError, match="clip_value_min, clip_value_max, or both"):
        F.clip_by_value(X)
    with pytest.raises(ShapeError, match="x is of dtype float64; compare it"):
        F.reduce_all(X)
    for call in (lambda: F.logical_and(X > 1, IDS), lambda: F.logical_not(X), lambda: F.where(X, X, 0.0)):
        with pytest.raises(ShapeError, match="compare it, or cast it to bool"):
            call()
    with pytest.raises(ShapeError, match="there is no tensor to add"):
        F.addn([])


def test_the_package_offers_classes_and_functions_under_mindspores_names() -> None:
    for name in ("matmul", "softmax", "gather", "dropout", "layer_norm", "reshape"):
        assert getattr(mpiparallel.ops, name) is getattr(F, name)
    for name in ("MatMul", "Softmax", "Gather", "LayerNorm", "ApplyMomentum"):
        assert getattr(mpiparallel.ops, name) is getattr(P, name)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64])
@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos", "tanh"])
def test_functions_that_give_floats_take_bools_and_integers_as_float32(name: str, dtype: type) -> None:
    given = np.array([1, 3, 7, 100], dtype)
    with np.errstate(over="ignore"):
        expected = getattr(np, name)(given.astype(np.float32))
        found = getattr(F, name)(Tensor(given)).asnumpy()
    np.testing.assert_array_equal(found, expected, strict=True)


def test_gelu_says_once_that_its_exact_form_is_computed_by_the_other(remarks: Callable[[], list[str]]) -> None:
    F.gelu(X, approximate="tanh")
    assert remarks() == []
    for _ in range(2):
        F.gelu(X, approximate="none")
    (line,) = remarks()
    assert "by the tanh form, which is off by less than 0.0005" in line
