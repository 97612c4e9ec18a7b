"""MindSpore's functions that reduce dims by an operator."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied
from mpiparallel.ops.reductions.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceSum


def reduce_sum(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the sum over dims, all when none are given.

    Parameters
    ----------
    x : Tensor, array or number
        Numbers of any shape.
    axis : int or tuple of int
        The dims, negative ones from the right; ``()`` means all.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Notes
    -----
    Where a dim is cut over which it goes, each rank has a term, and an AllReduce puts them together.

    Examples
    --------
    >>> reduce_sum(Tensor([[1.0, 2.0], [3.0, 4.0]]), 0).tolist()
    [4.0, 6.0]
    """
    return applied(ReduceSum(keep_dims), x, axis)


def reduce_mean(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the mean over dims, all when none are given.

    Parameters
    ----------
    x : Tensor or array
        Floating point, of any shape.
    axis : int or tuple of int
        The dims, negative ones from the right; ``()`` means all.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Notes
    -----
    Where a dim is cut over which it goes, each rank has a term, and an AllReduce puts them together.

    Examples
    --------
    >>> reduce_mean(Tensor([[1.0, 2.0], [3.0, 4.0]]), 0).tolist()
    [2.0, 3.0]
    """
    return applied(ReduceMean(keep_dims), x, axis)


def reduce_max(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the largest element over dims, all when none are given.

    Parameters
    ----------
    x : Tensor, array or number
        Numbers of any shape.
    axis : int or tuple of int
        The dims, negative ones from the right; ``()`` means all.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Notes
    -----
    Where a dim is cut over which it goes, each rank has a term, and an AllReduce puts them together.

    Examples
    --------
    >>> reduce_max(Tensor([[1.0, 4.0], [3.0, 2.0]]), 0).tolist()
    [3.0, 4.0]
    """
    return applied(ReduceMax(keep_dims), x, axis)


def reduce_min(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the smallest element over dims, all when none are given.

    Parameters
    ----------
    x : Tensor, array or number
        Numbers of any shape.
    axis : int or tuple of int
        The dims, negative ones from the right; ``()`` means all.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Notes
    -----
    Where a dim is cut over which it goes, each rank has a term, and an AllReduce puts them together.

    Examples
    --------
    >>> reduce_min(Tensor([[1.0, 4.0], [3.0, 2.0]]), 0).tolist()
    [1.0, 2.0]
    """
    return applied(ReduceMin(keep_dims), x, axis)


def mean(x: Any, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Return the mean over dims, all when ``axis`` is None.

    Parameters
    ----------
    x : Tensor or array
        Floating point, of any shape.
    axis : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Notes
    -----
    Where a dim is cut over which it goes, each rank has a term, and an AllReduce puts them together.

    Examples
    --------
    >>> mean(Tensor([[1.0, 2.0], [3.0, 4.0]]), 0).tolist()
    [2.0, 3.0]
    """
    return reduce_mean(x, () if axis is None else axis, keep_dims)


def reduce_prod(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the product over dims, all when none are given.

    Parameters
    ----------
    x : Tensor, array or number
        Numbers of any shape.
    axis : int or tuple of int
        The dims, negative ones from the right; ``()`` means all.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Notes
    -----
    Where a dim is cut over which it goes, each rank has a term, and an AllReduce puts them together.

    Examples
    --------
    >>> reduce_prod(Tensor([[1.0, 2.0], [3.0, 4.0]]), 1).tolist()
    [2.0, 12.0]
    """
    return applied(operations.ReduceProd(keep_dims), x, axis)


def reduce_all(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return whether all elements over dims hold.

    Parameters
    ----------
    x : Tensor or array
        bool, of any shape.
    axis : int or tuple of int
        The dims, negative ones from the right; ``()`` means all.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of bool.

    Raises
    ------
    ShapeError
        When ``x`` is not bool, or there is no such dim.

    Examples
    --------
    >>> reduce_all(Tensor([[True, False], [True, True]]), 1).tolist()
    [False, True]
    """
    return applied(operations.ReduceAll(keep_dims), x, axis)


def reduce_any(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return whether any element over dims holds.

    Parameters
    ----------
    x : Tensor or array
        bool, of any shape.
    axis : int or tuple of int
        The dims, negative ones from the right; ``()`` means all.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of bool.

    Raises
    ------
    ShapeError
        When ``x`` is not bool, or there is no such dim.

    Examples
    --------
    >>> reduce_any(Tensor([[True, False], [False, False]]), 1).tolist()
    [True, False]
    """
    return applied(operations.ReduceAny(keep_dims), x, axis)
