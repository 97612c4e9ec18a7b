"""MindSpore's functions that are methods of tensors and keep their shape: bounds, comparisons, mixtures."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import as_tensor


def clamp(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """Return the tensor with elements below ``min`` raised to it, and those above ``max`` lowered.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    min, max : Tensor, array or number, optional
        The bounds; None for none.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> clamp(Tensor([-2.0, 0.5, 2.0]), -1.0, 1.0).tolist()
    [-1.0, 0.5, 1.0]
    """
    return as_tensor(input).clip(min, max)


def clip(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """Return the tensor with elements below ``min`` raised to it, and those above ``max`` lowered.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    min, max : Tensor, array or number, optional
        The bounds; None for none.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> clip(Tensor([-2.0, 0.5, 2.0]), max=1.0).tolist()
    [-2.0, 0.5, 1.0]
    """
    return as_tensor(input).clip(min, max)


def isnan(input: Any) -> Tensor:
    """Return which elements are no number.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.

    Returns
    -------
    Tensor
        Of the same shape, of bool.

    Examples
    --------
    >>> isnan(Tensor([1.0, float("nan")])).tolist()
    [False, True]
    """
    return as_tensor(input).isnan()


def isfinite(input: Any) -> Tensor:
    """Return which elements are neither infinite nor no number.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.

    Returns
    -------
    Tensor
        Of the same shape, of bool.

    Examples
    --------
    >>> isfinite(Tensor([1.0, float("inf")])).tolist()
    [True, False]
    """
    return as_tensor(input).isfinite()


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return where elements differ by at most ``atol + rtol * abs(other)``; by ``equal_nan`` also two NaN.

    Parameters
    ----------
    input, other : Tensor, array or number
        Numbers, of shapes that broadcast.
    rtol, atol : float
        The bounds.
    equal_nan : bool
        Whether two NaN are close.

    Returns
    -------
    Tensor
        Of bool.

    Examples
    --------
    >>> isclose(Tensor([1.0, 1.0]), Tensor([1.0 + 1e-7, 1.1])).tolist()
    [True, False]
    """
    return as_tensor(input).isclose(other, rtol, atol, equal_nan)


def lerp(input: Any, end: Any, weight: Any) -> Tensor:
    """Return ``input``, moved by ``weight`` towards ``end``.

    Parameters
    ----------
    input, end : Tensor or array
        Floating point, of shapes that broadcast.
    weight : Tensor, array or float
        0 gives ``input``, 1 gives ``end``.

    Returns
    -------
    Tensor
        Of the shape that they broadcast to.

    Examples
    --------
    >>> lerp(Tensor([1.0, 2.0]), Tensor([3.0, 4.0]), 0.5).tolist()
    [2.0, 3.0]
    """
    return as_tensor(input).lerp(end, weight)


def logical_xor(input: Any, other: Any) -> Tensor:
    """Return where one of two bool tensors holds, and not both.

    Parameters
    ----------
    input, other : Tensor or array
        bool, of shapes that broadcast.

    Returns
    -------
    Tensor
        Of bool.

    Examples
    --------
    >>> logical_xor(Tensor([True, True]), Tensor([True, False])).tolist()
    [False, True]
    """
    return as_tensor(input).logical_xor(other)


def numel(input: Any) -> int:
    """Return the number of elements of the whole tensor.

    Parameters
    ----------
    input : Tensor or array
        Of any shape and dtype.

    Returns
    -------
    int
        However it is cut.

    Examples
    --------
    >>> numel(Tensor([[1.0, 2.0]]))
    2
    """
    return as_tensor(input).numel()
