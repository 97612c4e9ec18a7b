"""Python's signs of tensors: arithmetic, logic, comparison, indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

    def __neg__(self) -> Tensor:
        return apply_named("Neg", self)

    def __abs__(self) -> Tensor:
        return apply_named("Abs", self)

    def __matmul__(self, other: Any) -> Tensor:
        return apply_named("BatchMatMul" if self.ndim > 2 else "MatMul", self, other)

    def __and__(self, other: Any) -> Tensor:
        return apply_named("LogicalAnd", self, other)

    def __or__(self, other: Any) -> Tensor:
        return apply_named("LogicalOr", self, other)

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
        return apply_named("StridedSlice", self, index)
