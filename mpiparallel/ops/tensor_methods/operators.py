"""Python's operators of tensors: arithmetic, logic, comparison, indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.errors import ShapeError
from mpiparallel.graph.own_operators import Add
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_operations import attached
from mpiparallel.ops.application import applied
from mpiparallel.ops.elementwise import (
    Abs,
    Div,
    Equal,
    FloorDiv,
    FloorMod,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    Mul,
    Neg,
    NotEqual,
    Sub,
)
from mpiparallel.ops.elementwise.power import Pow
from mpiparallel.ops.elementwise.selection import Select
from mpiparallel.ops.indexing.gathering import Gather
from mpiparallel.ops.indexing.slicing import StridedSlice
from mpiparallel.ops.matrix_product import BatchMatMul, MatMul


@attached
class TensorOperators(Tensor):
    """What a tensor does by Python's operators, with broadcasting."""

    def __add__(self, other: Any) -> Tensor:
        return applied(Add(), self, other)

    def __radd__(self, other: Any) -> Tensor:
        return applied(Add(), other, self)

    def __sub__(self, other: Any) -> Tensor:
        return applied(Sub(), self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return applied(Sub(), other, self)

    def __mul__(self, other: Any) -> Tensor:
        return applied(Mul(), self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return applied(Mul(), other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return applied(Div(), self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return applied(Div(), other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return applied(FloorDiv(), self, other)

    def __mod__(self, other: Any) -> Tensor:
        return applied(FloorMod(), self, other)

    def __pow__(self, other: Any) -> Tensor:
        return applied(Pow(), self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return applied(FloorDiv(), other, self)

    def __rmod__(self, other: Any) -> Tensor:
        return applied(FloorMod(), other, self)

    def __rpow__(self, other: Any) -> Tensor:
        return applied(Pow(), other, self)

    def __pos__(self) -> Tensor:
        return applied(Mul(), self, 1)

    def __neg__(self) -> Tensor:
        return applied(Neg(), self)

    def __abs__(self) -> Tensor:
        return applied(Abs(), self)

    def __matmul__(self, other: Any) -> Tensor:
        return applied(BatchMatMul() if self.ndim > 2 or np.ndim(other) > 2 else MatMul(), self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return applied(BatchMatMul() if self.ndim > 2 or np.ndim(other) > 2 else MatMul(), other, self)

    def __and__(self, other: Any) -> Tensor:
        return applied(LogicalAnd(), self, other)

    def __or__(self, other: Any) -> Tensor:
        return applied(LogicalOr(), self, other)

    __rand__, __ror__ = __and__, __or__

    def __xor__(self, other: Any) -> Tensor:
        return applied(NotEqual(), self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Tensor:
        return applied(LogicalNot(), self)

    def __eq__(self, other: object) -> Any:
        return applied(Equal(), self, other)

    def __ne__(self, other: object) -> Any:
        return applied(NotEqual(), self, other)

    def __lt__(self, other: Any) -> Tensor:
        return applied(Less(), self, other)

    def __le__(self, other: Any) -> Tensor:
        return applied(LessEqual(), self, other)

    def __gt__(self, other: Any) -> Tensor:
        return applied(Greater(), self, other)

    def __ge__(self, other: Any) -> Tensor:
        return applied(GreaterEqual(), self, other)

    def __getitem__(self, index: Any) -> Tensor:
        items = index if isinstance(index, tuple) else (index,)
        places = [place for place, item in enumerate(items) if _is_indices(item)]
        if not places:
            return applied(StridedSlice(), self, index)
        if len(places) > 1:
            raise ShapeError(f"index {index!r} has tensors at {len(places)} places; index one dim after the other")
        return self._gathered(items, places[0])

    def _gathered(self, items: tuple[Any, ...], place: int) -> Tensor:
        """Return the tensor at an index that has integers of a tensor at one place."""
        rest = applied(StridedSlice(), self, (*items[:place], slice(None), *items[place + 1 :]))
        before = items[:place]
        if any(item is Ellipsis for item in before):
            after = sum(not isinstance(item, (int, np.integer)) for item in items[place + 1 :])
            dim = rest.ndim - 1 - after
        else:
            dim = sum(not isinstance(item, (int, np.integer)) for item in before)
        return applied(Gather(), rest, _from_the_left(items[place], rest.shape[dim]), dim)


def _is_indices(item: Any) -> bool:
    """Tell whether an item of an index is a tensor, an array or a list of integers; bools and the rest are refused."""
    if isinstance(item, Tensor):
        return item.dtype.kind in "iu"
    return isinstance(item, (list, np.ndarray)) and np.asarray(item).dtype.kind in "iu"


def _from_the_left(indices: Any, extent: int) -> Any:
    """Return indices of which the negative ones, which count from the right, are made positive."""
    given = indices if isinstance(indices, Tensor) else np.asarray(indices)
    if given.dtype.kind == "u":
        return given
    # A short type of integers does not hold every place of a long dim.
    wide = given if extent <= np.iinfo(np.dtype(given.dtype)).max else given.astype(np.int64)
    if isinstance(wide, Tensor):
        return applied(Select(), wide < 0, wide + extent, wide)
    return np.where(wide < 0, wide + extent, wide)
