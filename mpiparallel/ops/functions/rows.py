"""MindSpore's functions of rows: places of extreme elements, running sums, sums of tensors, pools."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.graph.input_checks import normal_axis
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied


def _pair(operator: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
    result: tuple[Tensor, Tensor] = operator(*inputs)
    return result


def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index (int64) of the largest element along ``dim``, or in the flat tensor when it is None.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    dim : int, optional
        The dim.
    keepdim : bool
        Whether it stays, with an extent of 1.

    Returns
    -------
    Tensor
        int64; of equal elements the first.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> argmax(Tensor([[1.0, 4.0], [3.0, 2.0]]), 1).tolist()
    [1, 0]
    """
    return _extreme(operations.Argmax, input, dim, keepdim)


def argmin(input: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index (int64) of the smallest element along ``axis``, or in the flat tensor when it is None.

    Parameters
    ----------
    input : Tensor, array or number
        Numbers of any shape.
    axis : int, optional
        The dim.
    keepdims : bool
        Whether it stays, with an extent of 1.

    Returns
    -------
    Tensor
        int64; of equal elements the first.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> argmin(Tensor([[1.0, 4.0], [3.0, 2.0]]), 1).tolist()
    [0, 1]
    """
    return _extreme(operations.Argmin, input, axis, keepdims)


def _extreme(kind: type[operations.Argmax], x: Any, axis: int | None, keep_dims: bool) -> Tensor:
    flat = x if axis is not None else applied(operations.Reshape(), x, (-1,))
    operator = kind(-1 if axis is None else axis, np.int64)
    return applied(operator.configured(keep_dims=keep_dims and axis is not None), flat)


def topk(
    input: Any, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest elements along ``dim``, the last by default, descending, and their indices.

    Without ``largest`` they are the smallest, ascending.

    Parameters
    ----------
    input : Tensor or array
        Numbers, of at least one dim.
    k : int
        How many.
    dim : int, optional
        The dim, which is never cut.
    largest : bool
        Whether the largest are wanted.
    sorted : bool
        Whether they are in order.

    Returns
    -------
    tuple of Tensor
        The elements, and their indices along the dim, int32.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> topk(np.array([[3.0], [1.0], [2.0]]), 2, 0, largest=False)[0].asnumpy().tolist()
    [[1.0], [2.0]]
    """
    x = input if isinstance(input, Tensor) else Tensor(input)
    axis = x.ndim - 1 if dim is None else normal_axis(dim, x.ndim)
    order = (*(one for one in builtins.range(x.ndim) if one != axis), axis)
    rows = x.transpose(order) if axis != x.ndim - 1 else x
    values, indices = _pair(operations.TopK(sorted), rows if largest else _in_reverse(rows), k)
    back = tuple(order.index(one) for one in builtins.range(x.ndim))
    found = (values if largest else _in_reverse(values), indices)
    return found if axis == x.ndim - 1 else (found[0].transpose(back), found[1].transpose(back))


def _in_reverse(x: Tensor) -> Tensor:
    """Return numbers whose order is the opposite; done twice, they are what they were. No integer overflows."""
    if x.dtype.kind == "b":
        return x.logical_not()
    if x.dtype.kind in "iu":
        return applied(operations.Sub(), np.array(-1 if x.dtype.kind == "i" else np.iinfo(x.dtype).max, x.dtype), x)
    return -x


def cumsum(x: Any, axis: int, dtype: Any = None) -> Tensor:
    """Return the sum of the elements up to each along dim ``axis``, in ``dtype`` where one is given.

    Parameters
    ----------
    x : Tensor, array or number
        Numbers of any shape.
    axis : int
        The dim, which is never cut.
    dtype : dtype, optional
        In which it is computed.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    ShapeError
        When there is no such dim.

    Examples
    --------
    >>> cumsum(Tensor([1.0, 2.0, 3.0]), 0).tolist()
    [1.0, 3.0, 6.0]
    """
    return applied(operations.CumSum(), x if dtype is None else operations.Cast()(x, dtype), axis)


def addn(x: Sequence[Any]) -> Tensor:
    """Return the sum of tensors of one shape.

    Parameters
    ----------
    x : sequence of Tensor
        Of one shape and dtype.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Examples
    --------
    >>> addn([Tensor([1.0]), Tensor([2.0]), Tensor([3.0])]).tolist()
    [6.0]
    """
    return applied(operations.AddN(), x)


def bias_add(input_x: Any, bias: Any) -> Tensor:
    """Return ``input_x`` (n, c, ...) plus ``bias`` (c,).

    Parameters
    ----------
    input_x : Tensor or array
        (n, c, ...).
    bias : Tensor or array
        (c,), cut as the input's dim 1 is.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    ShapeError
        When they do not fit.

    Examples
    --------
    >>> bias_add(Tensor([[1.0, 2.0]]), Tensor([10.0, 20.0])).tolist()
    [[11.0, 22.0]]
    """
    return applied(operations.BiasAdd(), input_x, bias)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """Return images (n, c, h, w) averaged to ``output_size``, a number or (height, width).

    Parameters
    ----------
    input : Tensor or array
        (n, c, h, w), floating point.
    output_size : int or tuple of int
        In pixels; None in a tuple keeps an extent.

    Returns
    -------
    Tensor
        (n, c, height, width).

    Examples
    --------
    >>> adaptive_avg_pool2d(Tensor([[[[1.0, 3.0], [5.0, 7.0]]]]), 1).tolist()
    [[[[4.0]]]]
    """
    return applied(operations.AdaptiveAvgPool2D(output_size), input)
