"""Methods and signs of tensors, against those of NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.tensor import Tensor

X = np.arange(1.0, 25.0).reshape(2, 3, 4) / 7
Both = Callable[[Any], Any]

SAME: list[Both] = [
    lambda x: x.reshape(6, 4),
    lambda x: x.reshape((2, -1)),
    lambda x: x.flatten(),
    lambda x: x.squeeze(),
    lambda x: x[:, :1].squeeze(1),
    lambda x: x.transpose(2, 0, 1),
    lambda x: x.swapaxes(0, -1),
    lambda x: x.T,
    lambda x: x.sum(1),
    lambda x: x.mean((0, 2)),
    lambda x: x.max(-1),
    lambda x: x.min(),
    lambda x: x.prod(2),
    lambda x: (x > 1).all(0),
    lambda x: (x > 1).any(),
    lambda x: (-x).argmax(1),
    lambda x: (-x).argmin(),
    lambda x: x.cumsum(1),
    lambda x: x.clip(1.0, 2.0),
    lambda x: x.clip(1.0),
    lambda x: x.clip(None, 2.0),
    lambda x: abs(-x),
    lambda x: x // 0.3,
    lambda x: x % 0.3,
    lambda x: (x > 1) & (x < 2),
    lambda x: (x < 1) | ~(x < 2),
    lambda x: 1 - x / 2,
    lambda x: x[1],
    lambda x: x[-1, ..., 2],
    lambda x: x[:, None, 1:, ::-1],
    lambda x: x[..., None],
    lambda x: x[None],
    lambda x: x[np.int64(1), 0:3],
    lambda x: x[1:1],
    lambda x: x[0, 1, 2],
]

OWN: list[tuple[Both, Any]] = [
    (lambda x: x.abs(), X),
    (lambda x: x.exp(), np.exp(X)),
    (lambda x: x.log(), np.log(X)),
    (lambda x: x.sqrt(), np.sqrt(X)),
    (lambda x: x.square(), X * X),
    (lambda x: x.tanh(), np.tanh(X)),
    (lambda x: x.sigmoid(), 1 / (1 + np.exp(-X))),
    (lambda x: x.pow(2.0), X * X),
    (lambda x: x.expand_dims(1), X[:, None]),
    (lambda x: x.unsqueeze(-1), X[..., None]),
    (lambda x: x.view(4, 6), X.reshape(4, 6)),
    (lambda x: x.broadcast_to((5, 2, 3, 4)), np.broadcast_to(X, (5, 2, 3, 4))),
    (lambda x: x.masked_fill(x > 1, 0.0), np.where(X > 1, 0, X)),
    (lambda x: x.topk(2)[1], np.broadcast_to([3, 2], (2, 3, 2))),
    (lambda x: x.sum(0, True), X.sum(0, keepdims=True)),
]


class Applied(nn.Cell):
    """A network that is one function."""

    def __init__(self, function: Both) -> None:
        super().__init__()
        self.function = function

    def construct(self, x: Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize(("function", "wanted"), [*((one, one(X)) for one in SAME), *OWN])
def test_a_method_gives_what_numpy_does_at_once_and_in_a_traced_network(function: Both, wanted: Any) -> None:
    for actual in (function(Tensor(X)), Applied(function)(Tensor(X))):
        assert actual.shape == np.shape(wanted)
        np.testing.assert_allclose(actual.asnumpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("index", [True, 1.5, "a", [0, 1], (np.array([0]),)])
def test_an_index_that_is_not_known_while_tracing_is_refused_with_the_operator_to_use(index: Any) -> None:
    with pytest.raises(ShapeError, match=r"must be made of integers, slices, None and \.\.\.; use ops\.gather"):
        Tensor(X)[index]


def test_a_wrong_index_says_the_shape() -> None:
    with pytest.raises(ShapeError, match=r"index 2 is out of range for a dim of 2 elements of \(2, 3, 4\)"):
        Tensor(X)[2]
    with pytest.raises(ShapeError, match="4 indices for the 3 dims"):
        Tensor(X)[0, 0, 0, 0]
    with pytest.raises(ShapeError, match="more than once"):
        Tensor(X)[..., 0, ...]


def test_clip_needs_a_bound() -> None:
    with pytest.raises(ConfigurationError, match="give xmin, xmax, or both"):
        ms.Tensor(X).clip()
