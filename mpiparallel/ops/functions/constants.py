"""MindSpore's functions that make tensors of constants: filled, counted, the identity."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mpiparallel.graph.tensor import DEFAULT_FLOAT, Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied


def zeros_like(input: Any, *, dtype: Any = None) -> Tensor:
    """Return zeros of the shape of a tensor, and of its dtype unless one is given.

    Parameters
    ----------
    input : Tensor or array
        Of any shape.
    dtype : dtype, optional
        Of the result.

    Returns
    -------
    Tensor
        Laid out as ``input`` is.

    Examples
    --------
    >>> zeros_like(Tensor([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """
    return _cast(applied(operations.ZerosLike(), input), dtype)


def ones_like(input: Any, *, dtype: Any = None) -> Tensor:
    """Return ones of the shape of a tensor, and of its dtype unless one is given.

    Parameters
    ----------
    input : Tensor or array
        Of any shape.
    dtype : dtype, optional
        Of the result.

    Returns
    -------
    Tensor
        Laid out as ``input`` is.

    Examples
    --------
    >>> ones_like(Tensor([1.0, 2.0]), dtype=np.int32).tolist()
    [1, 1]
    """
    return _cast(applied(operations.OnesLike(), input), dtype)


def _cast(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None else x.astype(dtype)


def fill(type: Any, shape: Any, value: Any) -> Tensor:
    """Return a tensor of a dtype and a shape with ``value`` everywhere.

    Parameters
    ----------
    type : dtype
        MindSpore's or NumPy's.
    shape : tuple of int
        In elements.
    value : number
        Of each element.

    Returns
    -------
    Tensor
        A constant of the network.

    Examples
    --------
    >>> fill(np.float32, (2,), 3).tolist()
    [3.0, 3.0]
    """
    return applied(operations.Fill(), type, shape, value)


def full(size: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of a shape with ``fill_value`` everywhere, of its own dtype where none is given.

    Parameters
    ----------
    size : tuple of int
        In elements.
    fill_value : number
        Of each element.
    dtype : dtype, optional
        Of the result.

    Returns
    -------
    Tensor
        A constant of the network.

    Examples
    --------
    >>> full((2,), 3.0).tolist()
    [3.0, 3.0]
    """
    return fill(Tensor(fill_value).dtype if dtype is None else dtype, size, fill_value)


def zeros(size: Any, dtype: Any = None) -> Tensor:
    """Return zeros of a shape, float32 where no dtype is given.

    Parameters
    ----------
    size : int or tuple of int
        In elements.
    dtype : dtype, optional
        Of the result.

    Returns
    -------
    Tensor
        A constant of the network.

    Examples
    --------
    >>> zeros((2,)).tolist()
    [0.0, 0.0]
    """
    return operations.Zeros()(size, DEFAULT_FLOAT if dtype is None else dtype)


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Return ones of a shape, float32 where no dtype is given.

    Parameters
    ----------
    shape : int or tuple of int
        In elements.
    dtype : dtype, optional
        Of the result.

    Returns
    -------
    Tensor
        A constant of the network.

    Examples
    --------
    >>> ones((2,)).tolist()
    [1.0, 1.0]
    """
    return operations.Ones()(shape, DEFAULT_FLOAT if dtype is None else dtype)


def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Return ``start``, ``start + step``, ... up to and without ``end``.

    The numbers are known while a network is traced: a constant.

    Parameters
    ----------
    start, end : number
        Where ``end`` is None it is ``start``, and the numbers begin at 0.
    step : number
        Not 0.
    dtype : dtype, optional
        Integers give int64 without it, floats float32.

    Returns
    -------
    Tensor
        Of one dim.

    Raises
    ------
    ConfigurationError
        When ``step`` is 0.

    Examples
    --------
    >>> arange(3).asnumpy().tolist()
    [0, 1, 2]
    """
    first, last = (0, start) if end is None else (start, end)
    return Tensor(operations.Range(sys.maxsize)(first, last, step), dtype)


def range(start: Any, end: Any, step: Any = 1, maxlen: int = 1000000) -> Tensor:
    """Return ``start``, ``start + step``, ... up to and without ``end``, at most ``maxlen`` numbers.

    Parameters
    ----------
    start, end, step : number
        ``step`` is not 0.
    maxlen : int
        The most numbers.

    Returns
    -------
    Tensor
        Of one dim; integers give int64, floats float32.

    Raises
    ------
    ConfigurationError
        When ``step`` is 0, or there are more numbers.

    Examples
    --------
    >>> range(2, 8, 3).tolist()
    [2, 5]
    """
    return operations.Range(maxlen)(start, end, step)


def eye(n: int, m: int | None = None, dtype: Any = None) -> Tensor:
    """Return the ``n`` by ``m`` matrix with ones on its diagonal, float32 where no dtype is given.

    Parameters
    ----------
    n : int
        Rows.
    m : int, optional
        Columns, ``n`` when None.
    dtype : dtype, optional
        Of the result.

    Returns
    -------
    Tensor
        A constant of the network.

    Examples
    --------
    >>> eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return Tensor(np.eye(n, m, dtype=DEFAULT_FLOAT if dtype is None else np.dtype(dtype)))
