"""Python's signs of tensors: arithmetic, logic, comparison, indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mpiparallel.errors import ShapeError
from mpiparallel.graph.registry import OPERATORS

if TYPE_CHECKING:
    from mpiparallel.graph.tensor import Tensor


def apply_named(name: str, *inputs: Any, options: tuple[Any, ...] = ()) -> Tensor:
    """Return the output of the operator ``name``, made with ``options``, for inputs."""
    result: Tensor = OPERATORS[name](*options)(*inputs)
    return result


class TensorSigns:
    """What a tensor does by Python's signs, with broadcasting."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dim of the whole tensor, in elements."""
        raise NotImplementedError(type(self).__name__)

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return len(self.shape)

    def __add__(self, other: Any) -> Tensor:
        return apply_named("Add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return apply_named("Add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return apply_named("Sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return apply_named("Sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return apply_named("Mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return apply_named("Mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return apply_named("Div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return apply_named("Div", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return apply_named("FloorDiv", self, other)

    def __mod__(self, other: Any) -> Tensor:
        return apply_named("FloorMod", self, other)

    def __pow__(self, other: Any) -> Tensor:
        return apply_named("Pow", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return apply_named("FloorDiv", other, self)

    def __rmod__(self, other: Any) -> Tensor:
        return apply_named("FloorMod", other, self)

    def __rpow__(self, other: Any) -> Tensor:
        return apply_named("Pow", other, self)

    def __pos__(self) -> Tensor:
        return apply_named("Mul", self, 1)

    def __neg__(self) -> Tensor:
        return apply_named("Neg", self)

    def __abs__(self) -> Tensor:
        return apply_named("Abs", self)

    def __matmul__(self, other: Any) -> Tensor:
        return apply_named("BatchMatMul" if self.ndim > 2 else "MatMul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return apply_named("BatchMatMul" if self.ndim > 2 or np.ndim(other) > 2 else "MatMul", other, self)

    def __and__(self, other: Any) -> Tensor:
        return apply_named("LogicalAnd", self, other)

    def __or__(self, other: Any) -> Tensor:
        return apply_named("LogicalOr", self, other)

    __rand__, __ror__ = __and__, __or__

    def __xor__(self, other: Any) -> Tensor:
        return apply_named("NotEqual", self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Tensor:
        return apply_named("LogicalNot", self)

    def __eq__(self, other: object) -> Any:
        return apply_named("Equal", self, other)

    def __ne__(self, other: object) -> Any:
        return apply_named("NotEqual", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return apply_named("Less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return apply_named("LessEqual", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return apply_named("Greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return apply_named("GreaterEqual", self, other)

    def __getitem__(self, index: Any) -> Tensor:
        items = index if isinstance(index, tuple) else (index,)
        places = [place for place, item in enumerate(items) if _is_indices(item)]
        if not places:
            return apply_named("StridedSlice", self, index)
        if len(places) > 1:
            raise ShapeError(f"index {index!r} has tensors at {len(places)} places; index one dim after the other")
        return self._gathered(items, places[0])

    def _gathered(self, items: tuple[Any, ...], place: int) -> Tensor:
        """Return the tensor at an index that has integers of a tensor at one place."""
        rest = apply_named("StridedSlice", self, (*items[:place], slice(None), *items[place + 1 :]))
        before = items[:place]
        if any(item is Ellipsis for item in before):
            after = sum(not isinstance(item, (int, np.integer)) for item in items[place + 1 :])
            dim = rest.ndim - 1 - after
        else:
            dim = sum(not isinstance(item, (int, np.integer)) for item in before)
        return apply_named("Gather", rest, _from_the_left(items[place], rest.shape[dim]), dim)


def _is_indices(item: Any) -> bool:
    """Tell whether an item of an index is a tensor, an array or a list of integers; bools and the rest are refused."""
    if isinstance(item, TensorSigns):
        return item.dtype.kind in "iu"  # type: ignore[attr-defined]
    return isinstance(item, (list, np.ndarray)) and np.asarray(item).dtype.kind in "iu"


def _from_the_left(indices: Any, extent: int) -> Any:
    """Return indices of which the negative ones, which count from the right, are made positive."""
    if isinstance(indices, TensorSigns):
        return apply_named("Select", indices < 0, indices + extent, indices)
    given = np.asarray(indices)
    return np.where(given < 0, given + extent, given)
