"""Shape and dtype of a tensor, and which part of it an array holds."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.layout.box import Box


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of a whole tensor, or of a part of one.

    Parameters
    ----------
    shape : tuple of int
        In elements.
    dtype : numpy.dtype
        Of an element.

    Examples
    --------
    >>> TensorSpec((2, 3), np.dtype(np.float32)).byte_count
    24
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def byte_count(self) -> int:
        """Number of bytes."""
        return self.size * self.dtype.itemsize


@dataclass(frozen=True)
class Part:
    """Which box of a tensor of ``global_shape`` an array holds."""

    global_shape: tuple[int, ...]
    box: Box

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Part:
        """Return the part that is the whole tensor."""
        return cls(shape, Box.whole(shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.box.shape
