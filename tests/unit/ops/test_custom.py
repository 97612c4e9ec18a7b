"""Operators whose kernels are functions of arrays: ``ops.Custom``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Tensor, nn, ops
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, GradientError, MpiParallelError, ShapeError
from mpiparallel.testing import check_gradient, check_strategies

X = np.random.default_rng(2).normal(size=(6, 5))


def sinus(**options: Any) -> ops.Custom:
    return ops.Custom(np.sin, bprop=lambda x, out, dout: dout * ops.cos(x), **options)


def halves(x: Any, y: Any) -> tuple[Any, Any]:
    return x * y, x + y


def halves_gradient(x: Tensor, y: Tensor, out: tuple[Tensor, ...], dout: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return dout[0] * y + dout[1], dout[0] * x + dout[1]


TWO = ops.Custom(halves, lambda x, y: (x, y), lambda x, y: (x, y), bprop=halves_gradient, equation="ab,ab->ab,ab")


@pytest.mark.parametrize("equation", [None, "ab->ab", "aB->aB"])
def test_value_and_gradient_are_those_of_the_function_however_it_may_be_cut(equation: str | None) -> None:
    made = sinus(equation=equation)
    np.testing.assert_array_equal(made(Tensor(X)).asnumpy(), np.sin(X))
    check_gradient(made, X)
    check_strategies(made, X)


def test_a_function_may_give_several_outputs_and_sums_of_parts() -> None:
    check_gradient(TWO, X, X[::-1], outputs=(0, 1))
    check_strategies(TWO, X, X[::-1], outputs=(0, 1))
    check_strategies(ops.Custom(lambda x: x.sum(1), lambda shape: shape[:1], equation="bn->b"), X, outputs=())


@pytest.mark.parametrize(("equation", "parts"), [("ab->ab", {(3, 5)}), ("Ab->Ab", {(6, 5)}), (None, {(6, 5)})])
def test_the_function_is_given_the_part_of_its_rank(equation: str | None, parts: set[tuple[int, ...]]) -> None:
    def on_rank(communicator: Communicator) -> tuple[int, ...]:
        given: list[tuple[int, ...]] = []

        def noting(x: Any) -> Any:
            given.append(x.shape)
            return x

        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        network = Applied(ops.Custom(noting, equation=equation))
        network(Tensor(X))
        return given[-1]

    assert set(run_world(2, on_rank)) == parts


class Applied(nn.Cell):
    def __init__(self, operator: ops.Custom) -> None:
        super().__init__()
        self.operator = operator

    def construct(self, x: Tensor) -> Tensor:
        return self.operator(x)


def test_a_training_with_it_has_the_losses_of_one_rank() -> None:
    def losses(communicator: Communicator) -> list[float]:
        ms.set_seed(4)
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        network = nn.SequentialCell(nn.Dense(5, 4), Applied(sinus(equation="ab->ab")), nn.Dense(4, 1))
        told: list[float] = []

        class Noted(ms.Callback):
            def step_end(self, run_context: ms.RunContext) -> None:
                told.append(float(run_context.original_args().net_outputs))

        dataset = NumpySlicesDataset((X.astype(np.float32), X[:, :1].astype(np.float32)), shuffle=False).batch(6)
        model = ms.Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), 0.1))
        model.train(4, dataset, [Noted()])
        return told

    (alone,) = run_world(1, losses)
    assert alone[-1] < alone[0]
    for one in run_world(3, losses):
        np.testing.assert_allclose(one, alone, rtol=1e-5)


def test_what_the_function_is_given_cannot_be_changed() -> None:
    def careless(x: Any) -> Any:
        x += 1
        return x

    with pytest.raises(ValueError, match="read-only"):
        ops.Custom(careless)(Tensor(X))


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: ops.Custom(3), ConfigurationError, "func 3 is no function"),
        (lambda: ops.Custom(np.sin, bprop=3), ConfigurationError, "bprop 3 is no function"),
        (lambda: ops.Custom(np.sin, func_type="aot"), ConfigurationError, "func_type 'aot' compiles code"),
        (lambda: ops.Custom(np.sin, equation="ab")(Tensor(X)), ConfigurationError, "equation 'ab' does not fit"),
        (lambda: ops.Custom(np.sin, equation="a->a")(Tensor(X)), ConfigurationError, "tensors of 2 -> 2 dims"),
        (lambda: ops.Custom(halves)(Tensor(X), Tensor(X)), ShapeError, "Custom 'halves' returned 2 arrays, not the 1"),
        (
            lambda: ops.Custom(np.sum)(Tensor(X)),
            ShapeError,
            "Custom 'sum' returned shape .* for output 0, not",
        ),
        (lambda: ms.grad(ops.Custom(np.sin))(Tensor(X)), GradientError, "Custom 'sin' has no bprop"),
        (
            lambda: ms.grad(ops.Custom(np.sin, bprop=lambda x, out, dout: (dout, dout)))(Tensor(X)),
            GradientError,
            "Custom 'sin'.bprop returned 2 gradients for the 1 inputs",
        ),
    ],
)
def test_what_does_not_fit_is_said_by_the_name_of_the_function(
    call: Callable[[], Any], kind: type[MpiParallelError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        call()


def test_the_checks_take_floats_as_float64() -> None:
    check_gradient(ops.Exp(), X.astype(np.float32))
    check_gradient(ops.Select(), X > 0, X.astype(np.float16), X)


def test_a_wrong_gradient_and_a_wrong_rule_are_found() -> None:
    with pytest.raises(AssertionError, match="gradient of input 0"):
        check_gradient(ops.Custom(np.sin, bprop=lambda x, out, dout: dout), X)
    with pytest.raises(AssertionError, match="by rank"):
        check_strategies(ops.Custom(np.cumsum, lambda shape: shape, equation="a->a"), X[0], outputs=(), ranks=(2,))
