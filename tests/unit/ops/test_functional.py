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
    (lambda: F.split(X, 1, 3)[1], X[:, 2:4]),
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
    with pytest.raises(ConfigurationError, match="use 'tanh'"):
        F.gelu(X, approximate="none")
    with pytest.raises(ShapeError, match="must be the last dims"):
        F.layer_norm(X, (5,), V, V)


def test_the_package_offers_classes_and_functions_under_mindspores_names() -> None:
    for name in ("matmul", "softmax", "gather", "dropout", "layer_norm", "reshape"):
        assert getattr(mpiparallel.ops, name) is getattr(F, name)
    for name in ("MatMul", "Softmax", "Gather", "LayerNorm", "ApplyMomentum"):
        assert getattr(mpiparallel.ops, name) is getattr(P, name)
