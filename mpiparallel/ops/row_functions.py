"""MindSpore's functions of rows: products, logic, places of extreme elements, running sums, sums of tensors."""

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


def reduce_prod(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the product over dims, all when none are given."""
    return applied(operations.ReduceProd(keep_dims), x, axis)


def reduce_all(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return whether all elements over dims hold, of all dims when none are given."""
    return applied(operations.ReduceAll(keep_dims), x, axis)


def reduce_any(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return whether any element over dims holds, of all dims when none are given."""
    return applied(operations.ReduceAny(keep_dims), x, axis)


def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index (int64) of the largest element along ``dim``, or in the flat tensor when it is None."""
    return _extreme(operations.Argmax, input, dim, keepdim)


def argmin(input: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index (int64) of the smallest element along ``axis``, or in the flat tensor when it is None."""
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

    >>> topk(np.array([[3.0], [1.0], [2.0]]), 2, 0, largest=False)[0].asnumpy().tolist()
    [[1.0], [2.0]]
    """
    x = input if isinstance(input, Tensor) else Tensor(input)
    axis = x.ndim - 1 if dim is None else normal_axis(dim, x.ndim)
    order = (*(one for one in builtins.range(x.ndim) if one != axis), axis)
    rows = x.transpose(order) if axis != x.ndim - 1 else x
    values, indices = _pair(operations.TopK(sorted), rows if largest else -rows, k)
    back = tuple(order.index(one) for one in builtins.range(x.ndim))
    found = (values if largest else -values, indices)
    return found if axis == x.ndim - 1 else (found[0].transpose(back), found[1].transpose(back))


def cumsum(x: Any, axis: int, dtype: Any = None) -> Tensor:
    """Return the sum of the elements up to each along dim ``axis``, in ``dtype`` where one is given."""
    return applied(operations.CumSum(), x if dtype is None else operations.Cast()(x, dtype), axis)


def addn(x: Sequence[Any]) -> Tensor:
    """Return the sum of tensors of one shape."""
    return applied(operations.AddN(), x)


def bias_add(input_x: Any, bias: Any) -> Tensor:
    """Return ``input_x`` (n, c, ...) plus ``bias`` (c,)."""
    return applied(operations.BiasAdd(), input_x, bias)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """Return images (n, c, h, w) averaged to ``output_size``, a number or (height, width)."""
    return applied(operations.AdaptiveAvgPool2D(output_size), input)
