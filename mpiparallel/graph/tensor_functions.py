"""What a tensor does to each of its elements, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor_signs import TensorSigns, apply_named

if TYPE_CHECKING:
    from mpiparallel.graph.tensor import Tensor


class TensorFunctions(TensorSigns):
    """Functions of each element, and of the elements of two tensors, with broadcasting."""

    def abs(self) -> Tensor:
        """Return the absolute value of each element."""
        return apply_named("Abs", self)

    def neg(self) -> Tensor:
        """Return each element with the other sign."""
        return apply_named("Neg", self)

    def sign(self) -> Tensor:
        """Return -1, 0 or 1 for each element."""
        return apply_named("Sign", self)

    def floor(self) -> Tensor:
        """Return the largest integer not above each element."""
        return apply_named("Floor", self)

    def exp(self) -> Tensor:
        """Return e to the power of each element."""
        return apply_named("Exp", self)

    def log(self) -> Tensor:
        """Return the natural logarithm of each element."""
        return apply_named("Log", self)

    def sqrt(self) -> Tensor:
        """Return the square root of each element."""
        return apply_named("Sqrt", self)

    def rsqrt(self) -> Tensor:
        """Return 1 divided by the square root of each element."""
        return apply_named("Rsqrt", self)

    def square(self) -> Tensor:
        """Return each element times itself."""
        return apply_named("Square", self)

    def reciprocal(self) -> Tensor:
        """Return 1 divided by each element."""
        return apply_named("Reciprocal", self)

    def sin(self) -> Tensor:
        """Return the sine of each element, in radians."""
        return apply_named("Sin", self)

    def cos(self) -> Tensor:
        """Return the cosine of each element, in radians."""
        return apply_named("Cos", self)

    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent of each element."""
        return apply_named("Tanh", self)

    def sigmoid(self) -> Tensor:
        """Return ``1 / (1 + exp(-x))`` of each element."""
        return apply_named("Sigmoid", self)

    def logical_not(self) -> Tensor:
        """Return where the elements of a bool tensor do not hold."""
        return apply_named("LogicalNot", self)

    def add(self, other: Any) -> Tensor:
        """Return the sum, with broadcasting."""
        return apply_named("Add", self, other)

    def sub(self, other: Any) -> Tensor:
        """Return the difference, with broadcasting."""
        return apply_named("Sub", self, other)

    def mul(self, other: Any) -> Tensor:
        """Return the product of elements, with broadcasting."""
        return apply_named("Mul", self, other)

    def div(self, other: Any) -> Tensor:
        """Return the quotient, with broadcasting."""
        return apply_named("Div", self, other)

    def floor_divide(self, other: Any) -> Tensor:
        """Return the largest integer not above the quotient, with broadcasting."""
        return apply_named("FloorDiv", self, other)

    def remainder(self, other: Any) -> Tensor:
        """Return what the division leaves, of the sign of the divisor, with broadcasting."""
        return apply_named("FloorMod", self, other)

    def maximum(self, other: Any) -> Tensor:
        """Return the larger elements, with broadcasting."""
        return apply_named("Maximum", self, other)

    def minimum(self, other: Any) -> Tensor:
        """Return the smaller elements, with broadcasting."""
        return apply_named("Minimum", self, other)

    def eq(self, other: Any) -> Tensor:
        """Return where elements are equal, as bool, with broadcasting."""
        return apply_named("Equal", self, other)

    def ne(self, other: Any) -> Tensor:
        """Return where elements differ, as bool, with broadcasting."""
        return apply_named("NotEqual", self, other)

    def lt(self, other: Any) -> Tensor:
        """Return where elements are less, as bool, with broadcasting."""
        return apply_named("Less", self, other)

    def le(self, other: Any) -> Tensor:
        """Return where elements are not greater, as bool, with broadcasting."""
        return apply_named("LessEqual", self, other)

    def gt(self, other: Any) -> Tensor:
        """Return where elements are greater, as bool, with broadcasting."""
        return apply_named("Greater", self, other)

    def ge(self, other: Any) -> Tensor:
        """Return where elements are not less, as bool, with broadcasting."""
        return apply_named("GreaterEqual", self, other)

    def logical_and(self, other: Any) -> Tensor:
        """Return where both hold, with broadcasting."""
        return apply_named("LogicalAnd", self, other)

    def logical_or(self, other: Any) -> Tensor:
        """Return where either holds, with broadcasting."""
        return apply_named("LogicalOr", self, other)

    def pow(self, other: Any) -> Tensor:
        """Return the elements to a power, with broadcasting."""
        return apply_named("Pow", self, other)

    negative, absolute, subtract, multiply, divide, true_divide = neg, abs, sub, mul, div, div
    equal, not_equal, less, less_equal, greater, greater_equal = eq, ne, lt, le, gt, ge

    def logical_xor(self, other: Any) -> Tensor:
        """Return where one of two bool tensors holds, and not both."""
        return apply_named("NotEqual", self, other)

    def isnan(self) -> Tensor:
        """Return which elements are no number."""
        return apply_named("NotEqual", self, self)

    def isfinite(self) -> Tensor:
        """Return which elements are neither infinite nor no number."""
        return apply_named("Less", self.abs(), float("inf"))

    def isclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
        """Return where elements differ by at most ``atol + rtol * abs(other)``; by ``equal_nan`` also two NaN."""
        far = self.sub(other).abs().sub(apply_named("Abs", other).mul(rtol).add(atol))
        close = far.le(0.0)
        both_nan = self.isnan().logical_and(apply_named("NotEqual", other, other))
        return close.logical_or(both_nan) if equal_nan else close

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """Return the tensor, moved by ``weight`` towards ``end``."""
        return self.add(apply_named("Sub", end, self).mul(weight))

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
            return apply_named("Minimum", self, high)
        raised = apply_named("Maximum", self, low)
        return raised if high is None else apply_named("Minimum", raised, high)

    clamp = clip

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """Return ``value`` where ``mask`` holds and the tensor elsewhere, with broadcasting."""
        return apply_named("Select", mask, value, self)

    def where(self, condition: Any, y: Any) -> Tensor:
        """Return the tensor where ``condition`` holds and ``y`` elsewhere, with broadcasting."""
        return apply_named("Select", condition, self, y)

    def matmul(self, tensor2: Any) -> Tensor:
        """Return the matrix product of the last two dims."""
        product: Tensor = self @ tensor2
        return product

    mm = bmm = matmul
