"""MindSpore's functions that make tensors of constants: filled, counted, the identity."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mpiparallel.graph.tensor import DEFAULT_FLOAT, Tensor
from mpiparallel.ops import operations
from mpiparallel.ops.application import applied


def zeros_like(input: Any, *, dtype: Any = None) -> Tensor:
    """Return zeros of the shape of a tensor, and of its dtype unless one is given."""
    return _cast(applied(operations.ZerosLike(), input), dtype)


def ones_like(input: Any, *, dtype: Any = None) -> Tensor:
    """Return ones of the shape of a tensor, and of its dtype unless one is given."""
    return _cast(applied(operations.OnesLike(), input), dtype)


def _cast(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None else x.astype(dtype)


def fill(type: Any, shape: Any, value: Any) -> Tensor:
    """Return a tensor of a dtype and a shape with ``value`` everywhere."""
    return applied(operations.Fill(), type, shape, value)


def full(size: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of a shape with ``fill_value`` everywhere, of its own dtype where none is given."""
    return fill(Tensor(fill_value).dtype if dtype is None else dtype, size, fill_value)


def zeros(size: Any, dtype: Any = None) -> Tensor:
    """Return zeros of a shape, float32 where no dtype is given."""
    return operations.Zeros()(size, DEFAULT_FLOAT if dtype is None else dtype)


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Return ones of a shape, float32 where no dtype is given."""
    return operations.Ones()(shape, DEFAULT_FLOAT if dtype is None else dtype)


def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Return ``start``, ``start + step``, ... up to and without ``end``, or 0 to ``start`` where ``end`` is None.

    The numbers are known while a network is traced: a constant. Integers give int64, floats float32, unless ``dtype``
    is given. Raises ConfigurationError when ``step`` is 0.

    >>> arange(3).asnumpy().tolist()
    [0, 1, 2]
    """
    first, last = (0, start) if end is None else (start, end)
    return Tensor(operations.Range(sys.maxsize)(first, last, step), dtype)


def range(start: Any, end: Any, step: Any = 1, maxlen: int = 1000000) -> Tensor:
    """Return ``start``, ``start + step``, ... up to and without ``end``, at most ``maxlen`` numbers."""
    return operations.Range(maxlen)(start, end, step)


def eye(n: int, m: int | None = None, dtype: Any = None) -> Tensor:
    """Return the ``n`` by ``m`` matrix with ones on its diagonal, float32 where no dtype is given."""
    return Tensor(np.eye(n, m, dtype=DEFAULT_FLOAT if dtype is None else np.dtype(dtype)))
