"""What a tensor does along its dims: sums and the like, extremes and their places, shares."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_operations import attached
from mpiparallel.ops.application import applied
from mpiparallel.ops.losses.softmax_and_log import LogSoftmax, Softmax
from mpiparallel.ops.reductions.cumulation import CumSum
from mpiparallel.ops.reductions.ranking import Argmax, Argmin, TopK
from mpiparallel.ops.reductions.reduction import (
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
)
from mpiparallel.ops.shapes.constant import StopGradient
from mpiparallel.ops.tensor_methods.arguments import synonymous


def _reduced(kind: Callable[[bool], Operator], x: Any, axis: Any, keep_dims: bool) -> Tensor:
    return applied(kind(keep_dims), x, () if axis is None else axis)


@attached
class TensorReductions(Tensor):
    """Functions along dims, which may be counted from the right, and which MindSpore calls ``axis`` or ``dim``."""

    @synonymous
    def sum(self, axis: Any = (), keep_dims: bool = False, dtype: Any = None) -> Tensor:
        """Return the sum over dims, all when none are given, in elements of ``dtype`` where one is given."""
        return _reduced(ReduceSum, self if dtype is None else self.astype(dtype), axis, keep_dims)

    @synonymous
    def mean(self, axis: Any = (), keep_dims: bool = False, dtype: Any = None) -> Tensor:
        """Return the mean over dims, all when none are given, in elements of ``dtype`` where one is given."""
        return _reduced(ReduceMean, self if dtype is None else self.astype(dtype), axis, keep_dims)

    @synonymous
    def max(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return the largest element over dims, all when none are given."""
        return _reduced(ReduceMax, self, axis, keep_dims)

    @synonymous
    def min(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return the smallest element over dims, all when none are given."""
        return _reduced(ReduceMin, self, axis, keep_dims)

    @synonymous
    def prod(self, axis: Any = (), keep_dims: bool = False, dtype: Any = None) -> Tensor:
        """Return the product over dims, all when none are given, in elements of ``dtype`` where one is given."""
        return _reduced(ReduceProd, self if dtype is None else self.astype(dtype), axis, keep_dims)

    @synonymous
    def all(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return whether all elements of a bool tensor hold over dims, all when none are given."""
        return _reduced(ReduceAll, self, axis, keep_dims)

    @synonymous
    def any(self, axis: Any = (), keep_dims: bool = False) -> Tensor:
        """Return whether any element of a bool tensor holds over dims, all when none are given."""
        return _reduced(ReduceAny, self, axis, keep_dims)

    amax, amin = max, min

    @synonymous
    def var(self, axis: Any = (), ddof: int = 0, keep_dims: bool = False) -> Tensor:
        """Return the variance over dims, all when none are given, of ``count - ddof`` degrees of freedom."""
        far = self - _reduced(ReduceMean, self, axis, True)
        given = (axis,) if isinstance(axis, (int, np.integer)) else axis or range(self.ndim)
        count = prod(self.shape[dim] for dim in {dim % self.ndim for dim in given})
        squares = _reduced(ReduceMean, far * far, axis, keep_dims)
        # Without a degree of freedom left it is infinite, or no number, as in NumPy.
        return squares * (count / (count - ddof) if count > ddof else np.inf) if ddof else squares

    @synonymous
    def std(self, axis: Any = (), ddof: int = 0, keep_dims: bool = False) -> Tensor:
        """Return the square root of the variance."""
        return self.var(axis, ddof, keep_dims).sqrt()

    @synonymous
    def norm(self, ord: Any = None, axis: Any = (), keep_dims: bool = False, *, dtype: Any = None) -> Tensor:
        """Return a norm over dims, all when none are given: the root of the sum of squares, or of another order.

        ``ord`` is None, 2 or "fro", 1 for the sum of absolute values, infinity for the largest of them, -infinity for
        the smallest. It is computed in ``dtype`` where one is given. Raises ConfigurationError for other orders.
        """
        if dtype is not None:
            return self.astype(dtype).norm(ord, axis, keep_dims)
        if ord in (None, 2, "fro"):
            return _reduced(ReduceSum, self * self, axis, keep_dims).sqrt()
        kinds = {1: ReduceSum, np.inf: ReduceMax, -np.inf: ReduceMin}
        if ord not in kinds:
            raise ConfigurationError(f"Tensor.norm: ord {ord!r} is not one of None, 1, 2, 'fro', infinity, -infinity")
        return _reduced(kinds[ord], self.abs(), axis, keep_dims)

    @synonymous
    def logsumexp(self, axis: Any, keep_dims: bool = False) -> Tensor:
        """Return the logarithm of the sum of e to the power of the elements over dims."""
        greatest = applied(StopGradient(), _reduced(ReduceMax, self, axis, True))
        # What is infinite can be subtracted from nothing; its exponential is right as it is.
        largest = greatest.where(greatest.isfinite(), 0.0)
        total = _reduced(ReduceSum, (self - largest).exp(), axis, True).log() + largest
        return total if keep_dims else _reduced(ReduceSum, total, axis, False)

    @synonymous
    def argmax(self, axis: int | None = None, keep_dims: bool = False) -> Tensor:
        """Return the index (int64) of the first largest element along ``axis``, or in the flat tensor."""
        return self._place(Argmax, axis, keep_dims)

    @synonymous
    def argmin(self, axis: int | None = None, keep_dims: bool = False) -> Tensor:
        """Return the index (int64) of the first smallest element along ``axis``, or in the flat tensor."""
        return self._place(Argmin, axis, keep_dims)

    def _place(self, kind: Callable[..., Operator], axis: int | None, keep_dims: bool) -> Tensor:
        rows = self.flatten() if axis is None else self
        place = applied(kind(-1 if axis is None else axis, np.int64), rows)
        return place.expand_dims(axis) if keep_dims and axis is not None else place

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the ``k`` largest elements of each row of the last dim, descending, and their indices."""
        values, indices = applied(TopK(), self, k)
        return values, indices

    @synonymous
    def cumsum(self, axis: int, dtype: Any = None) -> Tensor:
        """Return the sum of the elements up to each along dim ``axis``, in ``dtype`` where one is given."""
        return applied(CumSum(), self if dtype is None else self.astype(dtype), axis)

    @synonymous
    def softmax(self, axis: int = -1, dtype: Any = None) -> Tensor:
        """Return ``exp(x) / sum(exp(x))`` along dim ``axis``, computed in ``dtype`` where one is given."""
        return applied(Softmax(axis), self if dtype is None else self.astype(dtype))

    @synonymous
    def log_softmax(self, axis: int = -1) -> Tensor:
        """Return the logarithm of softmax along dim ``axis``."""
        return applied(LogSoftmax(axis), self)
