"""What a tensor does to each of its elements, by name."""

from __future__ import annotations

from typing import Any

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_operations import attached
from mpiparallel.ops.application import applied
from mpiparallel.ops.elementwise import Abs, Less, Maximum, Minimum, NotEqual, Round, Sub
from mpiparallel.ops.elementwise.power import Pow
from mpiparallel.ops.elementwise.selection import Select, filling


@attached
class TensorElements(Tensor):
    """Functions of each element, and of the elements of two tensors, with broadcasting."""

    def pow(self, other: Any) -> Tensor:
        """Return the elements to a power, with broadcasting."""
        return applied(Pow(), self, other)

    def round(self, decimals: int = 0) -> Tensor:
        """Return each element rounded to so many decimals, of two nearest numbers that with the even last one."""
        if decimals == 0:
            return applied(Round(), self)
        scale = 10.0**decimals
        return self.mul(scale).round().div(scale)

    def logical_xor(self, other: Any) -> Tensor:
        """Return where one of two bool tensors holds, and not both."""
        return applied(NotEqual(), self, other)

    def isnan(self) -> Tensor:
        """Return which elements are no number."""
        return applied(NotEqual(), self, self)

    def isfinite(self) -> Tensor:
        """Return which elements are neither infinite nor no number."""
        return applied(Less(), self.abs(), float("inf"))

    def isclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
        """Return where elements differ by at most ``atol + rtol * abs(other)``; by ``equal_nan`` also two NaN."""
        far = self.sub(other).abs().sub(applied(Abs(), other).mul(rtol).add(atol))
        # The difference of two infinities is no number; equal ones are close.
        close = far.le(0.0).logical_or(self.eq(other))
        both_nan = self.isnan().logical_and(applied(NotEqual(), other, other))
        return close.logical_or(both_nan) if equal_nan else close

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """Return the tensor, moved by ``weight`` towards ``end``."""
        return self.add(applied(Sub(), end, self).mul(weight))

    def clip(self, xmin: Any = None, xmax: Any = None, **bounds: Any) -> Tensor:
        """Return the tensor with elements below ``xmin`` raised to it, and those above ``xmax`` lowered.

        The bounds also go by ``min`` and ``max``. Either may be left out, not both: ConfigurationError.
        """
        if set(bounds) - {"min", "max"}:
            raise ConfigurationError(f"Tensor.clip: {', '.join(bounds)} are not all among min and max")
        low, high = bounds.get("min", xmin), bounds.get("max", xmax)
        if low is None and high is None:
            raise ConfigurationError("Tensor.clip: give xmin, xmax, or both")
        if low is None:
            return applied(Minimum(), self, high)
        raised = applied(Maximum(), self, low)
        return raised if high is None else applied(Minimum(), raised, high)

    clamp = clip

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """Return ``value`` where ``mask`` holds and the tensor elsewhere, with broadcasting."""
        return applied(Select(), mask, filling(value, self), self)

    def where(self, condition: Any, y: Any) -> Tensor:
        """Return the tensor where ``condition`` holds and ``y`` elsewhere, with broadcasting."""
        return applied(Select(), condition, self, y)

    def matmul(self, tensor2: Any) -> Tensor:
        """Return the matrix product of the last two dims."""
        product: Tensor = self @ tensor2
        return product

    mm = bmm = matmul
