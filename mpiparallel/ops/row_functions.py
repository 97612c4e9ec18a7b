"""MindSpore's functions of rows: products, logic, places of extreme elements, running sums, sums of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import operations


def _apply(operator: Any, *inputs: Any) -> Tensor:
    result: Tensor = operator(*inputs)
    return result


def _pair(operator: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
    result: tuple[Tensor, Tensor] = operator(*inputs)
    return result


def reduce_prod(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return the product over dims, all when none are given."""
    return _apply(operations.ReduceProd(keep_dims), x, axis)


def reduce_all(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return whether all elements over dims hold, of all dims when none are given."""
    return _apply(operations.ReduceAll(keep_dims), x, axis)


def reduce_any(x: Any, axis: Any = (), keep_dims: bool = False) -> Tensor:
    """Return whether any element over dims holds, of all dims when none are given."""
    return _apply(operations.ReduceAny(keep_dims), x, axis)


def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index (int64) of the largest element along ``dim``, or in the flat tensor when it is None."""
    return _extreme(operations.Argmax, input, dim, keepdim)


def argmin(input: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index (int64) of the smallest element along ``axis``, or in the flat tensor when it is None."""
    return _extreme(operations.Argmin, input, axis, keepdims)


def _extreme(kind: type[operations.Argmax], x: Any, axis: int | None, keep_dims: bool) -> Tensor:
    flat = x if axis is not None else _apply(operations.Reshape(), x, (-1,))
    operator = kind(-1 if axis is None else axis, np.int64)
    return _apply(operator.configured(keep_dims=keep_dims and axis is not None), flat)


def topk(input: Any, k: int, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest elements of each row of the last dim, descending, and their indices."""
    return _pair(operations.TopK(sorted), input, k)


def cumsum(x: Any, axis: int, dtype: Any = None) -> Tensor:
    """Return the sum of the elements up to each along dim ``axis``, in ``dtype`` where one is given."""
    return _apply(operations.CumSum(), x if dtype is None else operations.Cast()(x, dtype), axis)


def addn(x: Sequence[Any]) -> Tensor:
    """Return the sum of tensors of one shape."""
    return _apply(operations.AddN(), x)


def bias_add(input_x: Any, bias: Any) -> Tensor:
    """Return ``input_x`` (n, c, ...) plus ``bias`` (c,)."""
    return _apply(operations.BiasAdd(), input_x, bias)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """Return images (n, c, h, w) averaged to ``output_size``, a number or (height, width)."""
    return _apply(operations.AdaptiveAvgPool2D(output_size), input)
