"""Losses of logits and products of matrices: what does not fit, which place in a network an error names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.errors import GradientError, ShapeError

X = np.random.default_rng(89).normal(size=(4, 3))
SHARES = np.abs(np.random.default_rng(97).normal(size=(4, 3)))
SOFTMAX = np.exp(X) / np.exp(X).sum(1, keepdims=True)

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.SoftmaxGrad()(X, X[:1]), r"input 1 has shape \(1, 3\); it must be \(4, 3\)"),
    (lambda: ops.LogSoftmaxGrad()(X, X[0]), r"input 1 has shape \(3,\); it must be \(4, 3\)"),
    (lambda: ops.SoftmaxCrossEntropyWithLogits()(X, X[:1]), r"labels has shape \(1, 3\); it must be \(4, 3\)"),
    (lambda: ops.SoftmaxCrossEntropyWithLogits()(X[0], X[0]), r"logits have shape \(3,\); they must be \(n, classes\)"),
    (lambda: ops.SparseSoftmaxCrossEntropyWithLogits()(X, [0, 1, 2]), r"labels has shape \(3,\); it must be \(4,\)"),
    (
        lambda: ops.SparseSoftmaxCrossEntropyWithLogits()(X, X[:, 0]),
        "labels is of dtype float64; cast it to an integer",
    ),
    (
        lambda: ops.SparseSoftmaxCrossEntropyWithLogits()(X, [0, 1, 2, -1]),
        "index -1 is out of range for the 3 elements",
    ),
    (lambda: ops.SumExp()(X, X), r"shift has shape \(4, 3\); it must be \(4, 1\)"),
    (lambda: ops.SumExpGrad()(X, X, X[:, :1]), r"dy has shape \(4, 3\); it must be \(4, 1\)"),
    (lambda: ops.BNMoments(2)(np.ones(2), np.ones(3)), r"square_sum has shape \(3,\); it must be \(2,\)"),
    (lambda: ops.MatMul()(X[None], X.T), r"x \(1, 4, 3\) and y \(3, 4\) must have two dims; use BatchMatMul for more"),
    (lambda: ops.MatMul()(X, X.T[None]), r"x \(4, 3\) and y \(1, 3, 4\) must have two dims"),
    (lambda: ops.MatMul()(X, X), r"\(transpose_a=False, transpose_b=False\) contract 3 elements with 4; make them equ"),
    (lambda: ops.MatMul(True)(X, X.T), r"\(transpose_a=True, transpose_b=False\) contract 4 elements with 3"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_what_does_not_fit_the_logits_is_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call()


def test_shares_of_any_sum_have_the_loss_of_the_formula_and_its_gradient() -> None:
    loss, gradient = ops.SoftmaxCrossEntropyWithLogits()(X, SHARES)
    np.testing.assert_allclose(loss.asnumpy(), -(SHARES * np.log(SOFTMAX)).sum(1), rtol=1e-12)
    wanted = SOFTMAX * SHARES.sum(1, keepdims=True) - SHARES
    np.testing.assert_allclose(gradient.asnumpy(), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_mean_loss_of_classes_is_of_the_dtype_of_the_logits(dtype: Any) -> None:
    labels = np.array([2, 0, 1, 1])
    found = ops.SparseSoftmaxCrossEntropyWithLogits()(X.astype(dtype), labels)
    assert found.dtype == dtype
    np.testing.assert_allclose(float(found), -np.log(SOFTMAX[range(4), labels]).mean(), rtol=2e-3)
    gradient = ops.SparseSoftmaxCrossEntropyWithLogits(is_grad=True)(X.astype(dtype), labels).asnumpy()
    np.testing.assert_allclose(gradient, (SOFTMAX - np.eye(3)[labels]) / 4, atol=1e-3)


def test_rows_far_from_zero_have_a_finite_loss() -> None:
    for shift in (-1e5, 1e5):
        loss = ops.SparseSoftmaxCrossEntropyWithLogits()(X + shift, [0, 1, 2, 0])
        np.testing.assert_allclose(float(loss), -np.log(SOFTMAX[range(4), [0, 1, 2, 0]]).mean(), rtol=1e-6)


class Inner(nn.Cell):
    """What a loss gives besides its value, or instead of it."""

    def __init__(self, loss: Any, arguments: Any) -> None:
        super().__init__()
        self.loss, self.arguments = loss, arguments

    def construct(self, x: Any) -> Any:
        found = self.loss(x, self.arguments)
        return found[1] if isinstance(found, tuple) else found


class Outer(nn.Cell):
    """A network with a cell in it, by whose name the operators in it are known."""

    def __init__(self, inner: Inner) -> None:
        super().__init__()
        self.inner = inner

    def construct(self, x: Any) -> Any:
        return self.inner(x)


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        (
            Inner(ops.SoftmaxCrossEntropyWithLogits(), SHARES),
            "SoftmaxCrossEntropyWithLogits: its second output is a gradient and has none of its own",
        ),
        (
            Inner(ops.SparseSoftmaxCrossEntropyWithLogits(is_grad=True), [0, 1, 2, 0]),
            "SparseSoftmaxCrossEntropyWithLogits: it is a gradient and has none of its own",
        ),
    ],
)
def test_a_gradient_of_a_gradient_is_refused_with_the_place_of_the_operator(inner: Inner, said: str) -> None:
    with pytest.raises(GradientError) as raised:
        ops.grad(Outer(inner))(Tensor(X))
    assert str(raised.value) == f"inner/{said}"


@pytest.mark.parametrize("target", [0.0, 0.25, 1.0])
def test_each_decision_has_a_gradient_by_its_logit_and_by_its_target(target: float) -> None:
    logits = np.array([-800.0, -1.0, 0.0, 2.0, 800.0])
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    of_x, of_y = ops.grad(lambda x, y: (ops.SigmoidCrossEntropyWithLogits()(x, y) * weights).sum(), (0, 1))(
        Tensor(logits), Tensor(np.full(5, target))
    )
    sigmoid = np.array([0.0, 1 / (1 + np.e), 0.5, 1 / (1 + np.exp(-2.0)), 1.0])
    np.testing.assert_allclose(of_x.asnumpy(), (sigmoid - target) * weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(of_y.asnumpy(), -logits * weights)
