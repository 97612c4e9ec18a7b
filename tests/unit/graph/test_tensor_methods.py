"""Methods and operators of tensors, against those of NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.errors import ConfigurationError, ShapeError, TraceError
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
    lambda x: (x > 1).cumsum(2, np.int32),
    lambda x: (3 * x).cumsum(0, dtype=np.int32),
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
    lambda x: x[[1, 0, -1]],
    lambda x: x[:, [2, 0]],
    lambda x: x[0, [2, 0], 1:],
    lambda x: x[..., [3, -1], None],
    lambda x: x[None, :, 1, [[0, 1], [2, 3]]],
    lambda x: x[..., [0, 2], :],
    lambda x: x.ravel(),
    lambda x: x.copy(),
    lambda x: x.sum(axis=1, keepdims=True),
    lambda x: x.mean(1, dtype=np.float64),
    lambda x: x.std(),
    lambda x: x.std((0, 2), ddof=1),
    lambda x: x.var(1, keepdims=True),
    lambda x: x.argmax(1, keepdims=True),
    lambda x: x.argmin(-1),
    lambda x: (x > 1) ^ (x < 2),
    lambda x: 2.0**x,
    lambda x: 7 // x,
    lambda x: 7 % x,
    lambda x: +x,
    lambda x: -x,
    lambda x: True & (x > 1),
    lambda x: x.nbytes + 0 * x,
    lambda x: x.itemsize + 0 * x,
    lambda x: sum(x.strides) + 0 * x,
    lambda x: x.take([5, 1, 1]),
    lambda x: x.take([2, 1], axis=1),
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
    (lambda x: x.sum(dim=(0, 1), keepdim=True), X.sum((0, 1), keepdims=True)),
    (lambda x: x.mean(axis=1, keep_dims=True), X.mean(1, keepdims=True)),
    (lambda x: x.sum(dtype=np.int32), X.astype(np.int32).sum()),
    (lambda x: x.amax(2), X.max(2)),
    (lambda x: x.norm(), np.sqrt((X * X).sum())),
    (lambda x: x.norm(1, dim=0), abs(X).sum(0)),
    (lambda x: (-x).norm(np.inf, 1, True), abs(X).max(1, keepdims=True)),
    (lambda x: x.norm(-np.inf), abs(X).min()),
    (lambda x: (1000 * x).logsumexp(1), 1000 * X.max(1)),
    (lambda x: x.logsumexp((0, 2), True), np.log(np.exp(X).sum((0, 2), keepdims=True))),
    (lambda x: x.softmax(1), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    (lambda x: x.log_softmax(-1), X - np.log(np.exp(X).sum(-1, keepdims=True))),
    (lambda x: x.permute(1, 0, 2), X.transpose(1, 0, 2)),
    (lambda x: x.transpose(0, 2), X.swapaxes(0, 2)),
    (lambda x: x[0].transpose(0, 1), X[0].T),
    (lambda x: x[0].transpose((0, 1)), X[0]),
    (lambda x: x.transpose(), X.T),
    (lambda x: x.moveaxis(0, -1), np.moveaxis(X, 0, -1)),
    (lambda x: x[0].t(), X[0].T),
    (lambda x: x.flatten(1), X.reshape(2, 12)),
    (lambda x: x.flatten(start_dim=0, end_dim=1), X.reshape(6, 4)),
    (lambda x: x.view_as(Tensor(np.zeros((4, 6)))), X.reshape(4, 6)),
    (lambda x: x[:1].expand(5, -1, 4), np.broadcast_to(X[:1], (5, 3, 4))),
    (lambda x: x[:1].expand_as(x), np.broadcast_to(X[:1], X.shape)),
    (lambda x: x.tile((2, 1, 3)), np.tile(X, (2, 1, 3))),
    (lambda x: x.split(2, 1)[1], X[:, 2:]),
    (lambda x: x.split((1, 3), dim=-1)[1], X[..., 1:]),
    (lambda x: x.chunk(3, -1)[1], X[..., 2:]),
    (lambda x: x.narrow(1, 1, 2), X[:, 1:]),
    (lambda x: x.unbind(1)[2], X[:, 2]),
    (lambda x: x[:1].unbind()[0], X[0]),
    (lambda x: x.index_select(2, [3, 0]), X[..., [3, 0]]),
    (lambda x: x.gather(np.array([1, 1]), 1), X[:, [1, 1]]),
    (lambda x: x[Tensor([1, 0, -1])], X[[1, 0, -1]]),
    (lambda x: x.add(1).sub(2).mul(3).div(x), (X - 1) * 3 / X),
    (lambda x: x.where(x > 1, np.nan).isnan(), X <= 1),
    (lambda x: x.neg().abs().reciprocal().rsqrt(), np.sqrt(X)),
    (lambda x: x.where(x > 1, -np.inf).isfinite(), X > 1),
    (lambda x: x.sin().square() + x.cos().square(), np.ones(X.shape)),
    (lambda x: x.floor_divide(0.3), X // 0.3),
    (lambda x: x.remainder(0.3), X % 0.3),
    (lambda x: x.maximum(1.5).minimum(2.0), X.clip(1.5, 2.0)),
    (lambda x: x.clamp(min=1.5), X.clip(1.5)),
    (lambda x: x.lerp(2 * x, 0.25), 1.25 * X),
    (lambda x: x.where(x > 1, 0.0), np.where(X > 1, X, 0)),
    (lambda x: x.gt(1).logical_xor(x.le(2)), (X > 1) ^ (X <= 2)),
    (lambda x: x.eq(x).logical_and(x.ne(1)).logical_or(x.lt(0)).logical_not(), X == 1),
    (lambda x: x.ge(2).equal(x.greater_equal(2)), np.ones(X.shape, bool)),
    (lambda x: x.isclose(x + 1e-9), np.ones(X.shape, bool)),
    (lambda x: x.matmul(x.swapaxes(1, 2)), X @ X.swapaxes(1, 2)),
    (lambda x: np.ones((2, 3)) @ x[0], np.ones((2, 3)) @ X[0]),
    (lambda x: x[0].mm(x[1].T), X[0] @ X[1].T),
    (lambda x: x.new_full((2, 2), 7), np.full((2, 2), 7.0)),
    (lambda x: x.new_zeros(2, 3) + x.new_ones((2, 3)) * x.numel() * x.dim(), np.full((2, 3), 72.0)),
    (lambda x: x.fill(3), np.full(X.shape, 3.0)),
    (lambda x: x.int().float().double().bool(), X.astype(int) != 0),
    (lambda x: x.half().type_as(x), X.astype(np.float16)),
    (lambda x: x.clone().contiguous().long(), X.astype(np.int64)),
    (lambda x: (10 * x).byte(), (10 * X).astype(np.uint8)),
    (lambda x: (100 * x).short(), (100 * X).astype(np.int16)),
    (lambda x: x.to(np.int64), X.astype(np.int64)),
    (lambda x: x.set_dtype(np.int32), X.astype(np.int32)),
    (lambda x: sum((k + 1) * row for k, row in enumerate(x)), X[0] + 2 * X[1]),
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


@pytest.mark.parametrize("index", [True, 1.5, "a", [0.5, 1], [True, False], Tensor(X > 1)])
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


def test_two_tensors_in_an_index_are_refused() -> None:
    with pytest.raises(ShapeError, match="tensors at 2 places; index one dim after the other"):
        Tensor(X)[[0, 1], [0, 1]]


def test_elements_are_overwritten_without_touching_the_array_that_the_tensor_was_made_of() -> None:
    array, wanted = X.copy(), X.copy()
    x = Tensor(array)
    x[0, 1:] = 5
    x[1, Tensor([2, 0])] = Tensor(np.arange(4.0))
    x[x > 4] = -1
    wanted[0, 1:] = 5
    wanted[1, [2, 0]] = np.arange(4.0)
    wanted[wanted > 4] = -1
    np.testing.assert_array_equal(x.asnumpy(), wanted)
    np.testing.assert_array_equal(array, X)


def test_elements_of_a_parameter_are_overwritten_where_they_lie() -> None:
    weight = ms.Parameter(X, "w")
    array = weight.asnumpy()
    weight[0] = 0
    np.testing.assert_array_equal(array[0], 0)


def test_elements_are_not_overwritten_in_a_traced_network() -> None:
    def overwritten(x: Any) -> Any:
        x[0] = 1
        return x

    at = rf"^{__file__}:{overwritten.__code__.co_firstlineno + 1}: construct "
    with pytest.raises(TraceError, match=rf"{at}overwrites elements of a tensor while the network is traced"):
        Applied(overwritten)(Tensor(X))


def test_what_numpy_makes_of_a_tensor_is_its_values() -> None:
    np.testing.assert_array_equal(np.asarray(Tensor(X)), X)
    assert np.asarray(Tensor(X), np.float32).dtype == np.float32
    assert Tensor(X).tolist() == X.tolist()
    assert Tensor(X).allclose(X + 1e-9)
    assert Tensor(X).is_floating_point()
    np.testing.assert_array_equal(Tensor.from_numpy(X).numpy(), X)


def test_an_argument_is_not_named_twice() -> None:
    with pytest.raises(TypeError, match="keepdim, keepdims name one argument twice"):
        Tensor(X).sum(0, keepdim=True, keepdims=True)


def test_pieces_add_up() -> None:
    with pytest.raises(ShapeError, match=r"sections \[1, 1\] add up to 2, but dim 1 has 3"):
        Tensor(X).split((1, 1), 1)


def test_clip_needs_a_bound() -> None:
    with pytest.raises(ConfigurationError, match="give xmin, xmax, or both"):
        ms.Tensor(X).clip()


def test_a_norm_of_another_order_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"Tensor\.norm: ord 3 is not one of None, 1, 2, 'fro', infinity, -i"):
        ms.Tensor(X).norm(3)
