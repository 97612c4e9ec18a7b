"""The element-wise functions that are made of others."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any, Final

from mpiparallel.graph.expression.function import Function
from mpiparallel.graph.expression.term import Term, call

_GELU_LINEAR: Final = sqrt(2.0 / pi)
_GELU_CUBIC: Final = 0.044715 * _GELU_LINEAR
_WINITZKI: Final = 0.147
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _sigmoid(x: Term) -> Term:
    return 1.0 / (1.0 + call("exp", -x))


def _softplus(x: Term) -> Term:
    """Return ``log(1 + exp(x))``; nothing above 1 goes through the exponential, which would overflow."""
    return call("maximum", x, 0.0) + call("log1p", call("exp", -call("absolute", x)))


def _hard_sigmoid(x: Term) -> Term:
    return call("minimum", call("maximum", x + 3.0, 0.0), 6.0) / 6.0


def _elu(x: Term, alpha: float) -> Term:
    return call("where", call("greater", x, 0.0), x, call("expm1", call("minimum", x, 0.0)) * alpha)


def _erfinv(x: Term) -> Term:
    """Return what a formula of Winitzki's has in three digits, after two steps of Halley's, each of thrice as many."""
    size = call("absolute", x)
    tail = call("log1p", -(x * x))
    middle = tail * 0.5 + 2.0 / (pi * _WINITZKI)
    found = call("sqrt", call("sqrt", middle * middle - tail / _WINITZKI) + middle)
    found = call("sqrt", tail / -_WINITZKI) / found
    for _ in range(2):
        # Of what is left to 1 where that is little, so that its digits are there.
        over = call("where", call("greater", size, 0.5), (1.0 - size) - call("erfc", found), call("erf", found) - size)
        step = over * call("exp", found * found) * (sqrt(pi) / 2.0)
        found = found - step / (1.0 + found * step)
    return call("where", call("equal", size, 1.0), x / (1.0 - size), found * call("sign", x))


def _gelu_tail(x: Term) -> Term:
    """Return ``exp(-2 u)``; ``(1 + tanh(u)) / 2`` is ``1 / (1 + exp(-2 u))``, and that is exact where u is negative."""
    return call("exp", x * (-2.0 * _GELU_LINEAR - (x * x) * (2.0 * _GELU_CUBIC)))


def _gelu_slope(dy: Term, x: Term) -> Term:
    gate = 1.0 / (1.0 + _gelu_tail(x))
    slope = x * (2.0 * _GELU_LINEAR + (x * x) * (6.0 * _GELU_CUBIC))
    return dy * gate * (1.0 + slope * (1.0 - gate))


def _quotient_or_zero(x: Term, y: Term) -> Term:
    return call("where", call("equal", x, 0.0), 0.0, x / y)


def _of_quotient_or_zero(dy: Any, quotient: Any, x: Any, y: Any) -> tuple[Any, Any]:
    scaled = (dy / y).masked_fill(x == 0.0, 0.0)
    return scaled, (-dy * quotient / y).masked_fill(x == 0.0, 0.0)


def _of_elu(dy: Any, y: Any, x: Any, alpha: float) -> Any:
    # Only what is not positive goes through exp, which would overflow and give gradients of no number.
    return dy.where(x > 0.0, dy * x.minimum(0.0).exp() * alpha)


def _of_selu(dy: Any, y: Any, x: Any) -> Any:
    return _of_elu(dy * _SELU_SCALE, y, x, _SELU_ALPHA)


def _of_hard_swish(dy: Any, y: Any, x: Any) -> Any:
    inside = (dy * (x + 1.5) / 3.0).where(x.abs() <= 3.0, dy)
    return inside.masked_fill(x < -3.0, 0.0)


def _of_mish(dy: Any, y: Any, x: Any) -> Any:
    share = x.maximum(0.0).add((-x.abs()).exp().log1p()).tanh()
    return dy * (share + x * (1.0 - share * share) * x.sigmoid())


def _of_silu(dy: Any, y: Any, x: Any) -> Any:
    share = x.sigmoid()
    return dy * share * (x * (1.0 - share) + 1.0)


COMPOSED_FUNCTIONS: Final = (
    Function(
        "Rsqrt",
        "1 divided by the square root of each element",
        terms=lambda x: 1.0 / call("sqrt", x),
        derivative=lambda dy, y, x: dy * -0.5 * y / x,
        functions="rsqrt",
        methods="rsqrt",
        gives="floats",
        example=((4.0, 0.25), (0.5, 2.0)),
    ),
    Function(
        "Reciprocal",
        "1 divided by each element",
        terms=lambda x: 1.0 / x,
        derivative=lambda dy, y, x: -dy * y * y,
        functions="reciprocal",
        methods="reciprocal",
        gives="floats",
        example=((2.0, 4.0), (0.5, 0.25)),
    ),
    Function(
        "Erfinv",
        "the number whose error function each element is; infinite at -1 and 1, beyond which there is none",
        terms=_erfinv,
        derivative=lambda dy, y, x: dy * (y * y).exp() * (sqrt(pi) / 2.0),
        functions="erfinv",
        methods="erfinv",
        takes="floats",
        example=((0.0, 0.5), (0.0, 0.4769)),
    ),
    Function(
        "Xdivy",
        "``x / y`` with broadcasting, and 0 wherever ``x`` is 0, where its gradient is 0 too",
        terms=_quotient_or_zero,
        derivative=_of_quotient_or_zero,
        arguments=("x", "y"),
        functions="xdivy",
        methods="xdivy",
        takes="floats",
        example=((0.0, 3.0), (5.0, 2.0), (0.0, 1.5)),
    ),
    Function(
        "ReLU",
        "``max(x, 0)``; its gradient at 0 is 0",
        terms=lambda x: call("maximum", x, 0.0),
        gradient=Function(
            "ReluGrad",
            "``dy`` where ``y``, the output of ReLU, is positive; 0 elsewhere",
            terms=lambda dy, y: dy * call("greater", y, 0.0),
            arguments=("dy", "y"),
            takes="floats",
            example=((1.0, 1.0), (0.0, 2.0), (0.0, 1.0)),
        ),
        arguments=("x",),
        example=((-1.0, 2.0), (0.0, 2.0)),
    ),
    Function(
        "GeLU",
        "``x * Phi(x)`` by its tanh form, ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))``",
        terms=lambda x: x / (1.0 + _gelu_tail(x)),
        gradient=Function(
            "GeluGrad",
            "``dy`` times the derivative of GeLU at ``x``",
            terms=_gelu_slope,
            arguments=("dy", "x"),
            takes="floats",
            example=((1.0, 1.0), (0.0, 1.0), (0.5, 1.083)),
        ),
        arguments=("x",),
        takes="floats",
        example=((-1.0, 1.0), (-0.1588, 0.8412)),
    ),
    Function(
        "Sigmoid",
        "``1 / (1 + exp(-input))``",
        terms=_sigmoid,
        gradient=Function(
            "SigmoidGrad",
            "``dy * y * (1 - y)``, where ``y`` is the output of Sigmoid",
            terms=lambda y, dy: (1.0 - y) * y * dy,
            arguments=("y", "dy"),
            takes="floats",
            example=((0.5, 1.0), (1.0, 1.0), (0.25, 0.0)),
        ),
        functions="sigmoid",
        methods="sigmoid",
        takes="floats",
        example=((0.0, 1.0), (0.5, 0.7311)),
    ),
    Function(
        "SiLU",
        "``input * sigmoid(input)``",
        terms=lambda x: x / (1.0 + call("exp", -x)),
        derivative=_of_silu,
        functions="silu swish",
        takes="floats",
        example=((0.0, 1.0), (0.0, 0.7311)),
    ),
    Function(
        "Mish",
        "``x * tanh(log(1 + exp(x)))``",
        terms=lambda x: x * call("tanh", _softplus(x)),
        derivative=_of_mish,
        arguments=("x",),
        functions="mish",
        takes="floats",
        example=((0.0, 1.0), (0.0, 0.8651)),
    ),
    Function(
        "Softplus",
        "``log(1 + exp(input))``",
        terms=_softplus,
        derivative=lambda dy, y, x: dy * x.sigmoid(),
        takes="floats",
        example=((0.0, 1.0), (0.6931, 1.3133)),
    ),
    Function(
        "Softsign",
        "``x / (1 + abs(x))``",
        terms=lambda x: x / (1.0 + call("absolute", x)),
        derivative=lambda dy, y, x: dy / (x.abs() + 1.0).square(),
        arguments=("x",),
        functions="softsign",
        takes="floats",
        example=((-1.0, 3.0), (-0.5, 0.75)),
    ),
    Function(
        "Elu",
        "``input_x`` where it is positive, ``alpha * (exp(input_x) - 1)`` elsewhere",
        terms=_elu,
        derivative=_of_elu,
        arguments=("input_x",),
        options={"alpha": 1.0},
        functions="elu",
        takes="floats",
        example=((-1.0, 2.0), (-0.6321, 2.0)),
    ),
    Function(
        "SeLU",
        "1.0507 times ``input_x`` where it is positive, times ``1.6733 * (exp(input_x) - 1)`` elsewhere",
        terms=lambda x: _elu(x, _SELU_ALPHA) * _SELU_SCALE,
        derivative=_of_selu,
        arguments=("input_x",),
        functions="selu",
        takes="floats",
        example=((-1.0, 1.0), (-1.1113, 1.0507)),
    ),
    Function(
        "HSigmoid",
        "``min(max(input + 3, 0), 6) / 6``; its gradient at -3 and 3 is 0",
        terms=_hard_sigmoid,
        derivative=lambda dy, y, x: (dy / 6.0).masked_fill(x.abs() >= 3.0, 0.0),
        functions="hardsigmoid",
        takes="floats",
        example=((-3.0, 1.0), (0.0, 0.6667)),
    ),
    Function(
        "HSwish",
        "``input * min(max(input + 3, 0), 6) / 6``",
        terms=lambda x: call("maximum", x, -3.0) * _hard_sigmoid(x),
        derivative=_of_hard_swish,
        functions="hardswish",
        takes="floats",
        example=((1.0, 4.0), (0.6667, 4.0)),
    ),
)
