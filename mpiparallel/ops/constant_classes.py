"""MindSpore's classes that make tensors of constants, known while a network is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import DEFAULT_FLOAT, Tensor


class Zeros:
    """Zeros of a shape and a dtype.

    >>> Zeros()((2,), np.int32).asnumpy()
    array([0, 0], dtype=int32)
    """

    def __call__(self, shape: Any, type: Any) -> Tensor:
        """Return a tensor of a shape, given as extents or as the only one."""
        return Tensor(np.zeros(shape, np.dtype(type)))


class Ones:
    """Ones of a shape and a dtype."""

    def __call__(self, shape: Any, type: Any) -> Tensor:
        """Return a tensor of a shape, given as extents or as the only one."""
        return Tensor(np.ones(shape, np.dtype(type)))


class Range:
    """``start``, ``start + delta``, ... up to and without ``limit``: int64 from integers, else float32.

    Raises ConfigurationError when ``delta`` is 0 or there are more than ``maxlen`` numbers.

    >>> Range()(2, 8, 3).asnumpy().tolist()
    [2, 5]
    """

    def __init__(self, maxlen: int = 1000000) -> None:
        self.maxlen = maxlen

    def __call__(self, start: Any, limit: Any, delta: Any) -> Tensor:
        """Return a tensor of one dim."""
        bounds = [item.item() if isinstance(item, Tensor) else item for item in (start, limit, delta)]
        if bounds[2] == 0:
            raise ConfigurationError("Range: delta is 0; give a step that leads from start to limit")
        numbers = np.arange(*bounds)
        if numbers.size > self.maxlen:
            raise ConfigurationError(
                f"Range: {numbers.size} numbers are more than maxlen {self.maxlen}; give a larger maxlen"
            )
        return Tensor(numbers if numbers.dtype.kind in "iu" else numbers.astype(DEFAULT_FLOAT))
