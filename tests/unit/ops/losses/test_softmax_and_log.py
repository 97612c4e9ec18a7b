"""Softmax and its logarithm along any dim, with their gradients by hand; sums of exponentials; what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ShapeError

X = np.random.default_rng(109).normal(size=(2, 3, 4))
WEIGHTS = np.random.default_rng(113).normal(size=(2, 3, 4))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_rows_along_any_dim_have_the_values_and_gradients_of_the_formula(axis: int) -> None:
    softmax = np.exp(X) / np.exp(X).sum(axis, keepdims=True)
    of_softmax = softmax * (WEIGHTS - (softmax * WEIGHTS).sum(axis, keepdims=True))
    of_logarithm = WEIGHTS - softmax * WEIGHTS.sum(axis, keepdims=True)
    for operator, value, gradient in [
        (ops.Softmax(axis), softmax, of_softmax),
        (ops.Softmax((axis,)), softmax, of_softmax),
        (ops.LogSoftmax(axis), np.log(softmax), of_logarithm),
    ]:
        np.testing.assert_allclose(operator(X).asnumpy(), value, rtol=1e-12)
        found = ops.grad(lambda x, operator=operator: (operator(x) * WEIGHTS).sum())(Tensor(X)).asnumpy()
        np.testing.assert_allclose(found, gradient, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("shift", [-1e4, 1e4])
@pytest.mark.parametrize("operator", [ops.Softmax(), ops.LogSoftmax()])
def test_what_is_added_to_a_whole_row_changes_nothing(operator: Any, shift: float) -> None:
    np.testing.assert_allclose(operator(X + shift).asnumpy(), operator(X).asnumpy(), rtol=1e-8)


def test_rows_are_those_of_the_last_dim_unless_told() -> None:
    even = np.zeros((2, 5))
    assert ops.Softmax()(even).tolist() == ops.softmax(even).tolist() == [[0.2] * 5] * 2
    np.testing.assert_allclose(ops.LogSoftmax()(even).asnumpy(), np.full((2, 5), -np.log(5)))
    np.testing.assert_allclose(ops.log_softmax(even).asnumpy(), np.full((2, 5), -np.log(5)))


def test_a_sum_of_exponentials_has_a_gradient_and_none_by_its_shift() -> None:
    shift = X.max(-1, keepdims=True)
    np.testing.assert_allclose(ops.SumExp()(X, shift).asnumpy(), np.exp(X - shift).sum(-1, keepdims=True), rtol=1e-12)
    rows = WEIGHTS[..., :1]
    of_x, of_shift = ops.grad(lambda x, y: (ops.SumExp()(x, y) * rows).sum(), (0, 1))(Tensor(X), Tensor(shift))
    np.testing.assert_allclose(of_x.asnumpy(), np.exp(X - shift) * rows, rtol=1e-12)
    assert of_shift.asnumpy().tolist() == np.zeros(shift.shape).tolist()


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.Softmax()(X.astype(int)), "x is of dtype int64; cast it to a floating-point dtype"),
    (lambda: ops.Softmax(3)(X), "axis 3 is out of range for 3 dims; use -3 to 2"),
    (lambda: ops.LogSoftmax(-4)(X), "axis -4 is out of range for 3 dims; use -3 to 2"),
    (lambda: ops.SumExp()(X.astype(int), X[..., :1]), "x is of dtype int64; cast it to a floating-point dtype"),
    (lambda: ops.SumExpGrad()(np.float64(1), np.float64(1), np.float64(1)), "x has no dims; it needs at least one"),
    (lambda: ops.SumExpGrad()(X[..., :1], X, X), r"shift has shape \(2, 3, 4\); it must be \(2, 3, 1\)"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_what_has_no_such_rows_is_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call()


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_decisions_of_any_shape_have_the_loss_of_the_formula(dims: int) -> None:
    logits, targets = X[(0,) * (3 - dims)], abs(WEIGHTS[(0,) * (3 - dims)]) % 1
    sigmoid = 1 / (1 + np.exp(-logits))
    wanted = -targets * np.log(sigmoid) - (1 - targets) * np.log(1 - sigmoid)
    np.testing.assert_allclose(ops.SigmoidCrossEntropyWithLogits()(logits, targets).asnumpy(), wanted, rtol=1e-9)
