"""Element-wise functions where their formula changes, and far out: values and gradients there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor

E = math.e
SELU, ALPHA = 1.0507009873554805, 1.6732632423543772
Numbers = list[float]
INNER = math.tanh(math.sqrt(2 / math.pi) * (1.5 + 0.044715 * 1.5**3))
# By the product rule, of x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) at 1.5.
GELU_SLOPE = (1 + INNER) / 2 + 0.75 * (1 - INNER**2) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * 1.5**2)


@pytest.mark.parametrize(
    ("function", "x", "slopes"),
    [
        (ops.abs, [-2.0, 0.0, 3.0], [-1.0, 0.0, 1.0]),
        (ops.relu, [-1.0, 0.0, 1e-6], [0.0, 0.0, 1.0]),
        (ops.floor, [-1.5, 0.0, 2.5], [0.0] * 3),
        (ops.sign, [-1.5, 0.0, 2.5], [0.0] * 3),
        (ops.Round(), [-1.5, 0.0, 2.5], [0.0] * 3),
        (ops.hardsigmoid, [-4.0, -3.0, -2.5, 0.0, 2.5, 3.0, 4.0], [0.0, 0.0, *[1 / 6] * 3, 0.0, 0.0]),
        (ops.hardswish, [-4.0, -2.5, -1.0, 0.0, 2.5, 4.0], [0.0, -1 / 3, 1 / 6, 0.5, 4 / 3, 1.0]),
        (lambda x: ops.elu(x, 0.5), [-1.0, 0.0, 1.0], [0.5 / E, 0.5, 1.0]),
        (ops.selu, [-1.0, 0.0, 1.0], [SELU * ALPHA / E, SELU * ALPHA, SELU]),
        (ops.softsign, [-1.0, 0.0, 3.0], [0.25, 1.0, 1 / 16]),
        (ops.softplus, [-800.0, 0.0, 800.0], [0.0, 0.5, 1.0]),
        (ops.silu, [-800.0, 0.0, 800.0], [0.0, 0.5, 1.0]),
        (ops.mish, [-800.0, 0.0, 800.0], [0.0, 0.6, 1.0]),
        (ops.sigmoid, [-800.0, 0.0, 800.0], [0.0, 0.25, 0.0]),
        (ops.tanh, [-800.0, 0.0, 800.0], [0.0, 1.0, 0.0]),
        (ops.gelu, [-30.0, 0.0, 30.0], [0.0, 0.5, 1.0]),
        (ops.erfinv, [0.0], [math.sqrt(math.pi) / 2]),
        (ops.erf, [0.5], [2 / math.sqrt(math.pi) * math.exp(-0.25)]),
        (ops.erfc, [0.5], [-2 / math.sqrt(math.pi) * math.exp(-0.25)]),
        (ops.sin, [0.5], [math.cos(0.5)]),
        (ops.cos, [0.5], [-math.sin(0.5)]),
        (ops.asin, [0.5], [1 / math.sqrt(0.75)]),
        (ops.acos, [0.5], [-1 / math.sqrt(0.75)]),
        (ops.atan, [0.5, -2.0], [0.8, 0.2]),
        (ops.sinh, [0.5], [math.cosh(0.5)]),
        (ops.cosh, [0.5], [math.sinh(0.5)]),
        (ops.exp, [0.5], [math.exp(0.5)]),
        (ops.expm1, [0.5], [math.exp(0.5)]),
        (ops.log, [0.5], [2.0]),
        (ops.log1p, [0.5], [1 / 1.5]),
        (ops.square, [0.5, -3.0], [1.0, -6.0]),
        (ops.neg, [0.5], [-1.0]),
        (ops.gelu, [1.5], [GELU_SLOPE]),
        (ops.sqrt, [4.0], [0.25]),
        (ops.rsqrt, [4.0], [-1 / 16]),
        (ops.reciprocal, [-2.0], [-0.25]),
    ],
)
def test_the_slope_is_that_of_the_formula_on_each_side_and_where_sides_meet(
    function: Callable[[Any], Any], x: Numbers, slopes: Numbers
) -> None:
    gradient = ops.grad(lambda given: (function(given) * 2.0).sum())(Tensor(np.array(x)))
    np.testing.assert_allclose(gradient.asnumpy(), 2 * np.array(slopes), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("function", "x", "y", "of_x", "of_y"),
    [
        (ops.maximum, [1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [0.0, 0.5, 1.0], [1.0, 0.5, 0.0]),
        (ops.minimum, [1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [1.0, 0.5, 0.0], [0.0, 0.5, 1.0]),
        (ops.xdivy, [0.0, 0.0, 3.0], [0.0, 2.0, 2.0], [0.0, 0.0, 0.5], [0.0, 0.0, -0.75]),
        (ops.div, [1.0, 6.0], [2.0, 3.0], [0.5, 1 / 3], [-0.25, -2 / 3]),
        (ops.floor_div, [7.0, -7.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]),
        (ops.floor_mod, [7.0, -7.0], [2.0, 2.0], [1.0, 1.0], [-3.0, 4.0]),
        (ops.fmod, [7.0, -7.0], [2.0, 2.0], [1.0, 1.0], [-3.0, 3.0]),
        (ops.atan2, [1.0, 0.0], [0.0, -2.0], [0.0, -0.5], [-1.0, 0.0]),
        (ops.sub, [7.0], [2.0], [1.0], [-1.0]),
        (ops.mul, [7.0], [2.0], [2.0], [7.0]),
    ],
)
def test_each_of_two_inputs_has_its_share_of_the_slope(
    function: Callable[[Any, Any], Any], x: Numbers, y: Numbers, of_x: Numbers, of_y: Numbers
) -> None:
    given = Tensor(np.array(x)), Tensor(np.array(y))
    found = ops.grad(lambda one, other: (function(one, other) * 2.0).sum(), (0, 1))(*given)
    for gradient, slopes in zip(found, (of_x, of_y), strict=True):
        np.testing.assert_allclose(gradient.asnumpy(), 2 * np.array(slopes), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("function", "x", "values"),
    [
        (ops.erfinv, [-1.0, 1.0, 0.0], [-np.inf, np.inf, 0.0]),
        (ops.hardsigmoid, [-3.0, 0.0, 3.0, 9.0], [0.0, 0.5, 1.0, 1.0]),
        (ops.hardswish, [-9.0, -3.0, -1.0, 3.0, 9.0], [0.0, 0.0, -1 / 3, 3.0, 9.0]),
        (ops.softplus, [-800.0, 800.0], [0.0, 800.0]),
        (ops.mish, [-800.0, 800.0], [0.0, 800.0]),
        (ops.elu, [-800.0, 0.0, 800.0], [-1.0, 0.0, 800.0]),
        (ops.gelu, [-30.0, 30.0], [0.0, 30.0]),
        (ops.Round(), [-2.5, -0.5, 0.5, 1.5, 2.5], [-2.0, 0.0, 0.0, 2.0, 2.0]),
    ],
)
def test_far_out_and_where_sides_meet_values_are_those_of_the_limit(
    function: Callable[[Any], Any], x: Numbers, values: Numbers
) -> None:
    np.testing.assert_allclose(function(Tensor(np.array(x))).asnumpy(), values, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("y", [-3.5, -1.0, -0.3, 1e-9, 0.2, 0.5, 1.0, 2.0, 3.5])
def test_the_inverse_of_the_error_function_gives_back_what_that_was_of(y: float) -> None:
    x = np.array([math.erf(y)])
    # Near 1 a number has fewer digits of what is left to 1.
    spacing = 1e-15 + np.spacing(1.0) * math.exp(y * y)
    np.testing.assert_allclose(ops.erfinv(Tensor(x)).asnumpy(), [y], rtol=1e-14, atol=spacing)
    slope = ops.grad(lambda given: ops.erfinv(given).sum())(Tensor(x)).asnumpy()
    np.testing.assert_allclose(slope, [math.sqrt(math.pi) / 2 * math.exp(y * y)], rtol=1e-9 if abs(y) < 3 else 1e-4)
