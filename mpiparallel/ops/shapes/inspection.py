"""MindSpore's classes that tell what is known of a tensor without its values."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from mpiparallel.dtype import Type, type_of
from mpiparallel.graph.tensor import Tensor


class Shape:
    """The extents of the whole tensor, in elements.

    Examples
    --------
    >>> Shape()(np.ones((2, 3)))
    (2, 3)
    """

    def __call__(self, input_x: Any) -> tuple[int, ...]:
        """Return a tuple of integers."""
        return input_x.shape if isinstance(input_x, Tensor) else np.shape(input_x)


class Rank:
    """The number of dims.

    Examples
    --------
    >>> Rank()(np.ones((2, 3)))
    2
    """

    def __call__(self, input_x: Any) -> int:
        """Return an integer."""
        return len(Shape()(input_x))


class Size:
    """The number of elements of the whole tensor.

    Examples
    --------
    >>> Size()(np.ones((2, 3)))
    6
    """

    def __call__(self, input_x: Any) -> int:
        """Return an integer."""
        return prod(Shape()(input_x))


class DType:
    """The type of an element.

    Examples
    --------
    >>> DType()(np.ones(2))
    mpiparallel.float64
    """

    def __call__(self, input_x: Any) -> Type:
        """Return a type of ``mpiparallel.dtype``."""
        return input_x.dtype if isinstance(input_x, Tensor) else type_of(np.asarray(input_x).dtype)
