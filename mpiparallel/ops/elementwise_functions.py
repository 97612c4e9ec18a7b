"""MindSpore's element-wise functions that are more than an operator of their name."""

from __future__ import annotations

from typing import Any

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import applied
from mpiparallel.ops.choice import Select
from mpiparallel.ops.elementwise import Div, FloorDiv, GeLU, Neg, ReLU
from mpiparallel.ops.power import Pow
from mpiparallel.refusal import only
from mpiparallel.remark import remark


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Return ``input / other`` with broadcasting; integers are divided as floats.

    With ``rounding_mode`` "floor" or "trunc" it is rounded down or towards 0, and integers stay integers. Raises
    ConfigurationError for another.

    >>> div(Tensor([-3.0, 3.0]), 2.0, rounding_mode="trunc").asnumpy().tolist()
    [-1.0, 1.0]
    """
    if rounding_mode not in (None, "floor", "trunc"):
        raise ConfigurationError(f"div: rounding_mode {rounding_mode!r} is not one of None, 'floor', 'trunc'")
    below: Tensor = (Div() if rounding_mode is None else FloorDiv())(input, other)
    if rounding_mode != "trunc":
        return below
    above: Tensor = -FloorDiv()(Neg()(input), other)
    return applied(Select(), below < 0, above, below)


def pow(input: Any, exponent: Any) -> Tensor:
    """Return ``input ** exponent`` with broadcasting."""
    return applied(Pow(), input, exponent)


def relu(input: Any, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``; raise ConfigurationError for ``inplace``."""
    only("relu", "inplace", inplace, False, "assign the result")
    return applied(ReLU(), input)


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """Return ``input * Phi(input)`` by its tanh form, which is off by less than 0.0005; a remark says so unless asked.

    Raises ConfigurationError when ``approximate`` is neither "none" nor "tanh".
    """
    if approximate not in ("none", "tanh"):
        raise ConfigurationError(f"gelu: approximate={approximate!r} is not supported; use 'none' or 'tanh'")
    if approximate == "none":
        remark("gelu: approximate='none' is computed by the tanh form, which is off by less than 0.0005")
    return applied(GeLU(), input)


def select(condition: Any, input: Any, other: Any) -> Tensor:
    """Return ``input`` where ``condition`` holds and ``other`` elsewhere, with broadcasting."""
    return applied(Select(), condition, input, other)


where = select


def round(input: Any, *, decimals: int = 0) -> Tensor:
    """Return each element rounded to so many decimals, of two nearest numbers that with the even last one.

    >>> round(Tensor([2.5, 0.126]), decimals=2).asnumpy().tolist()
    [2.5, 0.12999999523162842]
    """
    return (input if isinstance(input, Tensor) else Tensor(input)).round(decimals)


def masked_fill(input_x: Any, mask: Any, value: Any) -> Tensor:
    """Return ``value`` where ``mask`` holds and ``input_x`` elsewhere, with broadcasting."""
    return applied(Select(), mask, value, input_x)


divide = true_divide = div
