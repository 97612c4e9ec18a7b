"""MindSpore's functions that are methods of tensors: sums, products, variances and norms over dims."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.application import as_tensor


def sum(input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Return the sum over dims, all when none are given.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    dim : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    keepdim : bool
        Whether they stay, with an extent of 1.
    dtype : dtype, optional
        In which it is computed.

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
    >>> sum(Tensor([[1.0, 2.0], [3.0, 4.0]]), 1).tolist()
    [3.0, 7.0]
    """
    return as_tensor(input).sum(dim, keepdim, dtype)


def prod(input: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> Tensor:
    """Return the product over dims, all when none are given.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    axis : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    keep_dims : bool
        Whether they stay, with an extent of 1.
    dtype : dtype, optional
        In which it is computed.

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
    >>> prod(Tensor([[1.0, 2.0], [3.0, 4.0]]), 1).tolist()
    [2.0, 12.0]
    """
    return as_tensor(input).prod(axis, keep_dims, dtype)


def all(input: Any, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Return whether all elements over dims hold.

    Parameters
    ----------
    input : Tensor or array
        bool, of any shape.
    axis : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of bool.

    Raises
    ------
    ShapeError
        When it is not bool, or there is no such dim.

    Examples
    --------
    >>> all(Tensor([[True, False], [True, True]]), 1).tolist()
    [False, True]
    """
    return as_tensor(input).all(axis, keep_dims)


def any(input: Any, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Return whether any element over dims holds.

    Parameters
    ----------
    input : Tensor or array
        bool, of any shape.
    axis : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    keep_dims : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of bool.

    Raises
    ------
    ShapeError
        When it is not bool, or there is no such dim.

    Examples
    --------
    >>> any(Tensor([[True, False], [False, False]]), 1).tolist()
    [True, False]
    """
    return as_tensor(input).any(axis, keep_dims)


def var(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """Return the variance over dims, of ``count - ddof`` degrees of freedom.

    Parameters
    ----------
    input : Tensor or array
        Floating point, of any shape.
    axis : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    ddof : int
        By how much less than the count the sum of squares is divided.
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
    >>> var(Tensor([1.0, 2.0, 3.0, 4.0])).tolist()
    1.25
    """
    return as_tensor(input).var(axis, ddof, keepdims)


def std(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """Return the square root of the variance.

    Parameters
    ----------
    input : Tensor or array
        Floating point, of any shape.
    axis : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    ddof : int
        By how much less than the count the sum of squares is divided.
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
    >>> std(Tensor([1.0, 5.0])).tolist()
    2.0
    """
    return as_tensor(input).std(axis, ddof, keepdims)


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:  # noqa: N803
    """Return a norm over dims, as ``Tensor.norm`` does.

    Parameters
    ----------
    A : Tensor or array
        Floating point, of any shape.
    ord : int, float or str, optional
        Which norm; the root of the sum of squares when None.
    dim : int or tuple of int, optional
        The dims, negative ones from the right; all when none are given.
    keepdim : bool
        Whether they stay, with an extent of 1.
    dtype : dtype, optional
        In which it is computed.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Examples
    --------
    >>> norm(Tensor([3.0, 4.0])).tolist()
    5.0
    """
    return as_tensor(A).norm(ord, dim, keepdim, dtype=dtype)


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Tensor:
    """Return the logarithm of the sum of e to the power of the elements over dims.

    Parameters
    ----------
    input : Tensor or array
        Floating point, of any shape.
    dim : int or tuple of int
        The dims, negative ones from the right.
    keepdim : bool
        Whether they stay, with an extent of 1.

    Returns
    -------
    Tensor
        Without the dims, of the dtype of the input.

    Examples
    --------
    >>> round(float(logsumexp(Tensor([0.0, 0.0]), 0)), 4)
    0.6931
    """
    return as_tensor(input).logsumexp(dim, keepdim)
