"""MindSpore's functions that are methods of tensors: the largest and the smallest elements over dims."""

from __future__ import annotations

from typing import Any

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import as_tensor


def amax(input: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over dims, all when none are given.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    axis : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    keepdims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> amax(Tensor([[1.0, 4.0], [3.0, 2.0]]), 0).tolist()
    [3.0, 4.0]
    """
    return as_tensor(input).max(axis, keepdims)


def amin(input: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over dims, all when none are given.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    axis : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    keepdims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> amin(Tensor([[1.0, 4.0], [3.0, 2.0]]), 0).tolist()
    [1.0, 2.0]
    """
    return as_tensor(input).min(axis, keepdims)


def max(input: Any, axis: int | None = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest element along a dim, or of all, and its index (int64); of equal ones the first.

    Of all elements both are scalars, whatever ``keepdims`` says.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    axis : int, optional
        The dim; all when None.
    keepdims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    tuple of Tensor
        The elements, and their indices along the dim, or in the flat tensor.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> [found.tolist() for found in max(Tensor([[1.0, 4.0], [3.0, 2.0]]), 1)]
    [[4.0, 3.0], [1, 0]]
    """
    return _found(as_tensor(input), "max", axis, keepdims)


def min(input: Any, axis: int | None = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Return the smallest element along a dim, or of all, and its index (int64); of equal ones the first.

    Of all elements both are scalars, whatever ``keepdims`` says.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    axis : int, optional
        The dim; all when None.
    keepdims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    tuple of Tensor
        The elements, and their indices along the dim, or in the flat tensor.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> [found.tolist() for found in min(Tensor([[1.0, 4.0], [3.0, 2.0]]), 1)]
    [[1.0, 2.0], [0, 1]]
    """
    return _found(as_tensor(input), "min", axis, keepdims)


def _found(x: Tensor, name: str, axis: int | None, keepdims: bool) -> tuple[Tensor, Tensor]:
    if axis is None:
        no_effect(f"ops.{name}", "keepdims", keepdims, "without an axis the result is a scalar", default=False)
        return getattr(x, name)(), getattr(x, f"arg{name}")()
    return getattr(x, name)(axis, keepdims), getattr(x, f"arg{name}")(axis, keepdims)
