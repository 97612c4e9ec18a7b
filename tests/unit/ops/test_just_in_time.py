"""``jit``: functions of tensors that are compiled wherever they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpiparallel.common.api import jit, ms_function

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.context import GRAPH_MODE, PYNATIVE_MODE, set_context
from mpiparallel.errors import ConfigurationError, TraceError
from mpiparallel.graph.trace import active_trace

X = np.arange(6.0).reshape(2, 3)


def scaled(x: Any, factor: Any = 2) -> Any:
    return x * factor


WAYS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "plain": jit,
    "called": jit(),
    "by name": lambda function: jit(fn=function),
    "older": ms_function,
}


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
@pytest.mark.parametrize("way", WAYS)
def test_a_function_returns_what_it_returned_before(way: str, mode: int) -> None:
    set_context(mode=mode)
    function = WAYS[way](scaled)
    np.testing.assert_array_equal(function(ms.Tensor(X)).asnumpy(), 2 * X)
    np.testing.assert_array_equal(function(ms.Tensor(X), 5).asnumpy(), 5 * X)
    np.testing.assert_array_equal(function(ms.Tensor(X), factor=ms.Tensor(X)).asnumpy(), X * X)
    assert function.__name__ == "scaled"


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
def test_it_is_traced_once_for_each_shape_and_each_constant(mode: int) -> None:
    set_context(mode=mode)
    traced: list[Any] = []

    @jit
    def noted(x: Any, many: int) -> Any:
        assert active_trace() is not None
        traced.append((x.shape, many))
        return x.sum() * many

    for x, many in [(X, 1), (X, 1), (X, 2), (X[:1], 1), (X, 2)]:
        noted(ms.Tensor(x), many)
    assert traced == [((2, 3), 1), ((2, 3), 2), ((1, 3), 1)]


def test_a_method_is_compiled_for_each_object() -> None:
    class Line(nn.Cell):
        def __init__(self, slope: float) -> None:
            super().__init__()
            self.slope = slope

        @jit
        def construct(self, x: Any) -> Any:
            return x * self.slope

    for slope in (2.0, 3.0):
        np.testing.assert_array_equal(Line(slope)(ms.Tensor(X)).asnumpy(), slope * X)


def test_a_step_of_training_is_one_program_and_learns() -> None:
    set_context(mode=PYNATIVE_MODE)
    network = nn.Dense(3, 1)
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    loss = nn.MSELoss()
    gradients = ops.value_and_grad(lambda x, y: loss(network(x), y), None, optimizer.parameters)

    @ms.jit
    def step(x: Any, y: Any) -> Any:
        value, found = gradients(x, y)
        return ops.depend(value, optimizer(found))

    x = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
    y = x.sum(1, keepdims=True)
    losses = [float(step(ms.Tensor(x), ms.Tensor(y))) for _ in range(60)]
    assert losses[-1] < 0.01 * losses[0]


def test_a_cell_that_it_reads_is_followed_into_training_and_out_of_it() -> None:
    layer = nn.BatchNorm2d(1)
    images = ms.Tensor(np.random.default_rng(1).normal(3.0, 2.0, size=(4, 1, 5, 5)).astype(np.float32))

    def inner(x: Any) -> Any:
        return layer(x)

    @jit
    def outer(x: Any) -> Any:
        return inner(x).mean()

    layer.set_train(False)
    asleep = float(outer(images))
    layer.set_train()
    assert abs(float(outer(images))) < 1e-5 < abs(asleep - 3.0) + 1
    layer.set_train(False)
    assert float(outer(images)) != pytest.approx(0.0, abs=1e-3)


def test_options_of_mindspore_are_said_to_have_no_effect(remarks: Callable[[], list[str]]) -> None:
    jit(jit_level="O2", backend="ms_backend")(scaled)
    assert [line.split(" has no effect")[0] for line in remarks()] == [
        "jit: jit_level='O2'",
        "jit: backend='ms_backend'",
    ]


def test_tensors_in_a_tuple_are_inputs_and_numbers_beside_them_constants() -> None:
    traced: list[Any] = []

    @jit
    def product(pair: Any, factors: Any) -> Any:
        traced.append(factors)
        return pair[0] * pair[1] * factors[0]

    for scale, factors in ((1, (2,)), (3, (2,)), (1, (5,))):
        pair = (ms.Tensor(X), ms.Tensor(scale * X))
        np.testing.assert_array_equal(product(pair, factors).asnumpy(), scale * X * X * factors[0])
    assert traced == [(2,), (5,)]


def test_what_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="3 is no function; write @jit"):
        jit(3)
    with pytest.raises(TraceError, match=r"scaled: .*unhashable.*; give tensors, or constants that can be hashed"):
        jit(scaled)(ms.Tensor(X), {})
    with pytest.raises(TraceError, match="only by name"):
        jit(lambda x, *, factor=2: x * factor)(ms.Tensor(X))
