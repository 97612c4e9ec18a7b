"""MindSpore's element-wise functions that are more than an operator of their name."""

from __future__ import annotations

from typing import Any

from mpiparallel.compatibility.arguments import only
from mpiparallel.compatibility.remark import remark
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import applied
from mpiparallel.ops.elementwise import Div, FloorDiv, GeLU, Neg, ReLU
from mpiparallel.ops.elementwise.power import Pow
from mpiparallel.ops.elementwise.selection import Select, filling


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Return ``input / other`` with broadcasting.

    Parameters
    ----------
    input, other : Tensor, array or number
        Numbers, of shapes that broadcast.
    rounding_mode : {"floor", "trunc"}, optional
        Whether the quotient is rounded down, or towards 0; integers then stay integers, else they are divided as
        floats.

    Returns
    -------
    Tensor
        Of the shape that both broadcast to.

    Raises
    ------
    ConfigurationError
        For another ``rounding_mode``.

    Examples
    --------
    >>> div(Tensor([-3.0, 3.0]), 2.0, rounding_mode="trunc").asnumpy().tolist()
    [-1.0, 1.0]
    """
    if rounding_mode not in (None, "floor", "trunc"):
        raise ConfigurationError(f"div: rounding_mode {rounding_mode!r} is not one of None, 'floor', 'trunc'")
    below: Tensor = (Div() if rounding_mode is None else FloorDiv())(input, other)
    if rounding_mode != "trunc":
        return below
    if below.dtype.kind == "i":
        # The least integer has no opposite, so nothing is negated.
        return applied(Select(), (below < 0).logical_and(below * other != input), below + 1, below)
    above: Tensor = -FloorDiv()(Neg()(input), other)
    return applied(Select(), below < 0, above, below)


def pow(input: Any, exponent: Any) -> Tensor:
    """Return ``input ** exponent`` with broadcasting.

    Parameters
    ----------
    input, exponent : Tensor, array or number
        Numbers, of shapes that broadcast.

    Returns
    -------
    Tensor
        Of the shape that both broadcast to.

    Examples
    --------
    >>> pow(Tensor([2.0, 3.0]), 2.0).tolist()
    [4.0, 9.0]
    """
    return applied(Pow(), input, exponent)


def relu(input: Any, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    inplace : bool
        False.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    ConfigurationError
        For ``inplace``.

    Examples
    --------
    >>> relu(Tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    only("relu", "inplace", inplace, False, "assign the result")
    return applied(ReLU(), input)


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """Return ``input * Phi(input)`` by its tanh form, which is off by less than 0.0005; a remark says so unless asked.

    Parameters
    ----------
    input : Tensor or array
        Floating point, of any shape.
    approximate : {"none", "tanh"}
        "tanh" asks for that form.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    ConfigurationError
        For another ``approximate``.

    Examples
    --------
    >>> gelu(Tensor([0.0, 10.0]), "tanh").tolist()
    [0.0, 10.0]
    """
    if approximate not in ("none", "tanh"):
        raise ConfigurationError(f"gelu: approximate={approximate!r} is not supported; use 'none' or 'tanh'")
    if approximate == "none":
        remark("gelu: approximate='none' is computed by the tanh form, which is off by less than 0.0005")
    return applied(GeLU(), input)


def select(condition: Any, input: Any, other: Any) -> Tensor:
    """Return ``input`` where ``condition`` holds and ``other`` elsewhere, with broadcasting.

    Parameters
    ----------
    condition : Tensor or array
        bool.
    input, other : Tensor, array or number
        Of shapes that broadcast with the condition's.

    Returns
    -------
    Tensor
        Of their common dtype.

    Examples
    --------
    >>> select(Tensor([True, False]), Tensor([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]
    """
    return applied(Select(), condition, input, other)


where = select


def round(input: Any, *, decimals: int = 0) -> Tensor:
    """Return each element rounded to so many decimals, of two nearest numbers that with the even last one.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    decimals : int
        How many.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> round(Tensor([2.5, 0.126]), decimals=2).asnumpy().tolist()
    [2.5, 0.12999999523162842]
    """
    return (input if isinstance(input, Tensor) else Tensor(input)).round(decimals)


def masked_fill(input_x: Any, mask: Any, value: Any) -> Tensor:
    """Return ``value`` where ``mask`` holds and ``input_x`` elsewhere, with broadcasting.

    Parameters
    ----------
    input_x : Tensor or array
        Of any shape and dtype.
    mask : Tensor or array
        bool, of a shape that broadcasts with it.
    value : Tensor or number
        Of one element.

    Returns
    -------
    Tensor
        Of the dtype of ``input_x``.

    Examples
    --------
    >>> masked_fill(Tensor([1.0, 2.0]), Tensor([True, False]), 0.0).tolist()
    [0.0, 2.0]
    """
    return applied(Select(), mask, filling(value, input_x), input_x)


divide = true_divide = div
