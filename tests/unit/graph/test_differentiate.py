"""Gradients of operators that a user has written."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel.errors import GradientError
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator import Operator

X = np.arange(1.0, 4.0)


class Scaled(Operator):
    """``x * y``, with a gradient that a test gives."""

    def __init__(self, returned):
        self.returned = returned

    def equation(self, *inputs):
        return Equation.same(1, 1)

    def expression(self, x, y):
        return (x * y,)

    def gradient(self, inputs, outputs, gradients):
        return self.returned(*inputs, gradients[0])


def gradients(returned):
    found = ms.grad(lambda x, y: Scaled(returned)(x, y), (0, 1))(ms.Tensor(X), ms.Tensor(X + 1))
    return [gradient.asnumpy().tolist() for gradient in found]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda x, y, dy: (dy * y,), r"returned 1 gradients for 2 inputs; return a tuple of one for each, None where"),
        (lambda x, y, dy: (dy, dy, dy), "returned 3 gradients for 2 inputs"),
        (lambda x, y, dy: dy * y, "returned Tensor for 2 inputs"),
        (lambda x, y, dy: None, "returned NoneType for 2 inputs"),
        (
            lambda x, y, dy: (dy, dy.sum()),
            r"returned a gradient for input 1 of shape \(\); it must be a tensor of shape \(3,\), or None",
        ),
        (
            lambda x, y, dy: (1.0, dy),
            r"returned a gradient for input 0 of type float; it must be a tensor of shape \(3,\)",
        ),
    ],
)
def test_gradients_that_do_not_fit_the_inputs_are_an_error_that_names_the_operator(returned, said) -> None:
    with pytest.raises(GradientError, match=rf"^Scaled: Scaled\.gradient {said}"):
        gradients(returned)


def test_a_gradient_may_be_a_tensor_of_values_that_are_known() -> None:
    known = ms.Tensor(np.array([7.0, 8.0, 9.0]))
    assert gradients(lambda x, y, dy: (known, None)) == [[7.0, 8.0, 9.0], [0.0, 0.0, 0.0]]
