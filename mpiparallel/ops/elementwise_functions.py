"""MindSpore's functions that compute element by element, with broadcasting."""

from __future__ import annotations

from typing import Any

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.refusal import only
from mpiparallel.remark import remark


def add(input: Any, other: Any) -> Tensor:
    """Return ``input + other`` with broadcasting."""
    result: Tensor = operations.Add()(input, other)
    return result


def sub(input: Any, other: Any) -> Tensor:
    """Return ``input - other`` with broadcasting."""
    result: Tensor = operations.Sub()(input, other)
    return result


def mul(input: Any, other: Any) -> Tensor:
    """Return ``input * other`` with broadcasting."""
    result: Tensor = operations.Mul()(input, other)
    return result


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Return ``input / other`` with broadcasting; integers are divided as floats.

    With ``rounding_mode`` "floor" or "trunc" it is rounded down or towards 0, and integers stay integers. Raises
    ConfigurationError for another.

    >>> div(Tensor([-3.0, 3.0]), 2.0, rounding_mode="trunc").asnumpy().tolist()
    [-1.0, 1.0]
    """
    if rounding_mode not in (None, "floor", "trunc"):
        raise ConfigurationError(f"div: rounding_mode {rounding_mode!r} is not one of None, 'floor', 'trunc'")
    below: Tensor = (operations.Div() if rounding_mode is None else operations.FloorDiv())(input, other)
    if rounding_mode != "trunc":
        return below
    above: Tensor = -operations.FloorDiv()(operations.Neg()(input), other)
    result: Tensor = operations.Select()(below < 0, above, below)
    return result


def pow(input: Any, exponent: Any) -> Tensor:
    """Return ``input ** exponent`` with broadcasting."""
    result: Tensor = operations.Pow()(input, exponent)
    return result


def floor_div(x: Any, y: Any) -> Tensor:
    """Return the largest integers not above ``x / y``, with broadcasting."""
    result: Tensor = operations.FloorDiv()(x, y)
    return result


def floor_mod(x: Any, y: Any) -> Tensor:
    """Return ``x - floor(x / y) * y`` with broadcasting."""
    result: Tensor = operations.FloorMod()(x, y)
    return result


def maximum(input: Any, other: Any) -> Tensor:
    """Return the larger of each two elements, with broadcasting."""
    result: Tensor = operations.Maximum()(input, other)
    return result


def minimum(input: Any, other: Any) -> Tensor:
    """Return the smaller of each two elements, with broadcasting."""
    result: Tensor = operations.Minimum()(input, other)
    return result


def equal(input: Any, other: Any) -> Tensor:
    """Return where ``input == other``, as bool."""
    result: Tensor = operations.Equal()(input, other)
    return result


def not_equal(input: Any, other: Any) -> Tensor:
    """Return where ``input != other``, as bool."""
    result: Tensor = operations.NotEqual()(input, other)
    return result


def less(input: Any, other: Any) -> Tensor:
    """Return where ``input < other``, as bool."""
    result: Tensor = operations.Less()(input, other)
    return result


def less_equal(input: Any, other: Any) -> Tensor:
    """Return where ``input <= other``, as bool."""
    result: Tensor = operations.LessEqual()(input, other)
    return result


def greater(input: Any, other: Any) -> Tensor:
    """Return where ``input > other``, as bool."""
    result: Tensor = operations.Greater()(input, other)
    return result


def greater_equal(input: Any, other: Any) -> Tensor:
    """Return where ``input >= other``, as bool."""
    result: Tensor = operations.GreaterEqual()(input, other)
    return result


def logical_and(input: Any, other: Any) -> Tensor:
    """Return where both hold, as bool."""
    result: Tensor = operations.LogicalAnd()(input, other)
    return result


def logical_or(input: Any, other: Any) -> Tensor:
    """Return where either holds, as bool."""
    result: Tensor = operations.LogicalOr()(input, other)
    return result


def logical_not(input: Any) -> Tensor:
    """Return where ``input`` does not hold, as bool."""
    result: Tensor = operations.LogicalNot()(input)
    return result


def neg(input: Any) -> Tensor:
    """Return ``-input``."""
    result: Tensor = operations.Neg()(input)
    return result


def abs(input: Any) -> Tensor:
    """Return the absolute value of each element."""
    result: Tensor = operations.Abs()(input)
    return result


def sign(input: Any) -> Tensor:
    """Return -1, 0 or 1 for each element."""
    result: Tensor = operations.Sign()(input)
    return result


def exp(input: Any) -> Tensor:
    """Return e to the power of each element."""
    result: Tensor = operations.Exp()(input)
    return result


def log(input: Any) -> Tensor:
    """Return the natural logarithm of each element."""
    result: Tensor = operations.Log()(input)
    return result


def sqrt(input: Any) -> Tensor:
    """Return the square root of each element."""
    result: Tensor = operations.Sqrt()(input)
    return result


def rsqrt(input: Any) -> Tensor:
    """Return ``1 / sqrt(input)``."""
    result: Tensor = operations.Rsqrt()(input)
    return result


def reciprocal(input: Any) -> Tensor:
    """Return ``1 / input``."""
    result: Tensor = operations.Reciprocal()(input)
    return result


def square(input: Any) -> Tensor:
    """Return ``input * input``."""
    result: Tensor = operations.Square()(input)
    return result


def sin(input: Any) -> Tensor:
    """Return the sine of each element, in radians."""
    result: Tensor = operations.Sin()(input)
    return result


def cos(input: Any) -> Tensor:
    """Return the cosine of each element, in radians."""
    result: Tensor = operations.Cos()(input)
    return result


def floor(input: Any) -> Tensor:
    """Return the largest integer not above each element."""
    result: Tensor = operations.Floor()(input)
    return result


def tanh(input: Any) -> Tensor:
    """Return the hyperbolic tangent of each element."""
    result: Tensor = operations.Tanh()(input)
    return result


def sigmoid(input: Any) -> Tensor:
    """Return ``1 / (1 + exp(-input))``."""
    result: Tensor = operations.Sigmoid()(input)
    return result


def relu(input: Any, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``; raise ConfigurationError for ``inplace``."""
    only("relu", "inplace", inplace, False, "assign the result")
    result: Tensor = operations.ReLU()(input)
    return result


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """Return ``input * Phi(input)`` by its tanh form, which is off by less than 0.0005; a remark says so unless asked.

    Raises ConfigurationError when ``approximate`` is neither "none" nor "tanh".
    """
    if approximate not in ("none", "tanh"):
        raise ConfigurationError(f"gelu: approximate={approximate!r} is not supported; use 'none' or 'tanh'")
    if approximate == "none":
        remark("gelu: approximate='none' is computed by the tanh form, which is off by less than 0.0005")
    result: Tensor = operations.GeLU()(input)
    return result


def select(condition: Any, input: Any, other: Any) -> Tensor:
    """Return ``input`` where ``condition`` holds and ``other`` elsewhere, with broadcasting."""
    result: Tensor = operations.Select()(condition, input, other)
    return result


where = select


def masked_fill(input_x: Any, mask: Any, value: Any) -> Tensor:
    """Return ``value`` where ``mask`` holds and ``input_x`` elsewhere, with broadcasting."""
    result: Tensor = operations.Select()(mask, value, input_x)
    return result
