"""Written by `make stubs`; edit the tables of functions."""

from typing import Any

from mpiparallel.graph.elementwise import Binary as Binary
from mpiparallel.graph.elementwise import Unary as Unary
from mpiparallel.graph.own_operators import Add as Add
from mpiparallel.graph.tensor import Tensor

class Floor(Unary):
    """The largest integer not above each element; its gradient is 0."""

class Ceil(Unary):
    """The smallest integer not below each element; its gradient is 0."""

class Round(Unary):
    """The integer nearest to each element, of two the even one; its gradient is 0."""

class Sign(Unary):
    """-1, 0 or 1 for each element; its gradient is 0."""

class Neg(Unary):
    """Each element with the other sign."""

class Abs(Unary):
    """The absolute value of each element; its gradient at 0 is 0."""

class Square(Unary):
    """Each element times itself."""

class Sqrt(Unary):
    """The square root of each element."""

class Exp(Unary):
    """E to the power of each element."""

class Expm1(Unary):
    """E to the power of each element, less 1."""

class Log(Unary):
    """The natural logarithm of each element."""

class Log1p(Unary):
    """The natural logarithm of each element plus 1."""

class Erf(Unary):
    """The error function of each element."""

class Erfc(Unary):
    """1 less the error function of each element."""

class Sin(Unary):
    """The sine of each element, in radians."""

class Cos(Unary):
    """The cosine of each element, in radians."""

class Asin(Unary):
    """The angle, in radians, of which each element is the sine."""

class ACos(Unary):
    """The angle, in radians, of which each element is the cosine."""

class Atan(Unary):
    """The angle, in radians, of which each element is the tangent."""

class Sinh(Unary):
    """The hyperbolic sine of each element."""

class Cosh(Unary):
    """The hyperbolic cosine of each element."""

class Tanh(Unary):
    """The hyperbolic tangent of each element."""

class Sub(Binary):
    """``input - other`` with broadcasting."""

class Mul(Binary):
    """``input * other`` with broadcasting."""

class Div(Binary):
    """``input / other`` with broadcasting; integers are divided as floats."""

class RealDiv(Binary):
    """``input / other`` with broadcasting; integers are divided as floats."""

class FloorDiv(Binary):
    """The largest integers not above ``x / y``, with broadcasting; its gradient is 0."""

class FloorMod(Binary):
    """``x - floor(x / y) * y`` with broadcasting: it has the sign of ``y``, as Python's ``%``."""

class Mod(Binary):
    """What the division of ``input`` by ``other`` leaves, with broadcasting: it has the sign of ``input``, as C's."""

class Atan2(Binary):
    """The angle, in radians, of the point with ``other`` to the right and ``input`` up, with broadcasting."""

class Maximum(Binary):
    """The larger of each two elements, with broadcasting; equal ones take half of the gradient each."""

class Minimum(Binary):
    """The smaller of each two elements, with broadcasting; equal ones take half of the gradient each."""

class Equal(Binary):
    """Where ``input == other``, as bool, with broadcasting."""

class NotEqual(Binary):
    """Where ``input != other``, as bool, with broadcasting."""

class Less(Binary):
    """Where ``input < other``, as bool, with broadcasting."""

class LessEqual(Binary):
    """Where ``input <= other``, as bool, with broadcasting."""

class Greater(Binary):
    """Where ``input > other``, as bool, with broadcasting."""

class GreaterEqual(Binary):
    """Where ``input >= other``, as bool, with broadcasting."""

class LogicalAnd(Binary):
    """Where both hold, with broadcasting."""

class LogicalOr(Binary):
    """Where either holds, with broadcasting."""

class LogicalNot(Unary):
    """Where the elements of a bool tensor do not hold."""

class Rsqrt(Unary):
    """1 divided by the square root of each element."""

class Reciprocal(Unary):
    """1 divided by each element."""

class Erfinv(Unary):
    """The number whose error function each element is; infinite at -1 and 1, beyond which there is none."""

class Xdivy(Binary):
    """``x / y`` with broadcasting, and 0 wherever ``x`` is 0, where its gradient is 0 too."""

class ReLU(Unary):
    """``max(x, 0)``; its gradient at 0 is 0."""

class GeLU(Unary):
    """``x * Phi(x)`` by its tanh form, ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))``."""

class Sigmoid(Unary):
    """``1 / (1 + exp(-input))``."""

class SiLU(Unary):
    """``input * sigmoid(input)``."""

class Mish(Unary):
    """``x * tanh(log(1 + exp(x)))``."""

class Softplus(Unary):
    """``log(1 + exp(input))``."""

class Softsign(Unary):
    """``x / (1 + abs(x))``."""

class Elu(Unary):
    """``input_x`` where it is positive, ``alpha * (exp(input_x) - 1)`` elsewhere."""
    def __init__(self, alpha: float = ...) -> None: ...

class SeLU(Unary):
    """1.0507 times ``input_x`` where it is positive, times ``1.6733 * (exp(input_x) - 1)`` elsewhere."""

class HSigmoid(Unary):
    """``min(max(input + 3, 0), 6) / 6``; its gradient at -3 and 3 is 0."""

class HSwish(Unary):
    """``input * min(max(input + 3, 0), 6) / 6``."""

class ReluGrad(Binary):
    """``dy`` where ``y``, the output of ReLU, is positive; 0 elsewhere."""

class GeluGrad(Binary):
    """``dy`` times the derivative of GeLU at ``x``."""

class SigmoidGrad(Binary):
    """``dy * y * (1 - y)``, where ``y`` is the output of Sigmoid."""
def floor(input: Any) -> Tensor: ...
def ceil(input: Any) -> Tensor: ...
def sign(input: Any) -> Tensor: ...
def neg(input: Any) -> Tensor: ...
def negative(input: Any) -> Tensor: ...
def abs(input: Any) -> Tensor: ...
def absolute(input: Any) -> Tensor: ...
def square(input: Any) -> Tensor: ...
def sqrt(x: Any) -> Tensor: ...
def exp(input: Any) -> Tensor: ...
def expm1(input: Any) -> Tensor: ...
def log(input: Any) -> Tensor: ...
def log1p(input: Any) -> Tensor: ...
def erf(input: Any) -> Tensor: ...
def erfc(input: Any) -> Tensor: ...
def sin(input: Any) -> Tensor: ...
def cos(input: Any) -> Tensor: ...
def asin(input: Any) -> Tensor: ...
def arcsin(input: Any) -> Tensor: ...
def acos(input: Any) -> Tensor: ...
def arccos(input: Any) -> Tensor: ...
def atan(input: Any) -> Tensor: ...
def arctan(input: Any) -> Tensor: ...
def sinh(input: Any) -> Tensor: ...
def cosh(input: Any) -> Tensor: ...
def tanh(input: Any) -> Tensor: ...
def add(input: Any, other: Any) -> Tensor: ...
def sub(input: Any, other: Any) -> Tensor: ...
def subtract(input: Any, other: Any) -> Tensor: ...
def mul(input: Any, other: Any) -> Tensor: ...
def multiply(input: Any, other: Any) -> Tensor: ...
def floor_div(x: Any, y: Any) -> Tensor: ...
def floor_divide(x: Any, y: Any) -> Tensor: ...
def floor_mod(x: Any, y: Any) -> Tensor: ...
def remainder(x: Any, y: Any) -> Tensor: ...
def fmod(input: Any, other: Any) -> Tensor: ...
def atan2(input: Any, other: Any) -> Tensor: ...
def arctan2(input: Any, other: Any) -> Tensor: ...
def maximum(input: Any, other: Any) -> Tensor: ...
def minimum(input: Any, other: Any) -> Tensor: ...
def equal(input: Any, other: Any) -> Tensor: ...
def eq(input: Any, other: Any) -> Tensor: ...
def not_equal(input: Any, other: Any) -> Tensor: ...
def ne(input: Any, other: Any) -> Tensor: ...
def less(input: Any, other: Any) -> Tensor: ...
def lt(input: Any, other: Any) -> Tensor: ...
def less_equal(input: Any, other: Any) -> Tensor: ...
def le(input: Any, other: Any) -> Tensor: ...
def greater(input: Any, other: Any) -> Tensor: ...
def gt(input: Any, other: Any) -> Tensor: ...
def greater_equal(input: Any, other: Any) -> Tensor: ...
def ge(input: Any, other: Any) -> Tensor: ...
def logical_and(input: Any, other: Any) -> Tensor: ...
def logical_or(input: Any, other: Any) -> Tensor: ...
def logical_not(input: Any) -> Tensor: ...
def rsqrt(input: Any) -> Tensor: ...
def reciprocal(input: Any) -> Tensor: ...
def erfinv(input: Any) -> Tensor: ...
def xdivy(x: Any, y: Any) -> Tensor: ...
def sigmoid(input: Any) -> Tensor: ...
def silu(input: Any) -> Tensor: ...
def swish(input: Any) -> Tensor: ...
def mish(x: Any) -> Tensor: ...
def softsign(x: Any) -> Tensor: ...
def elu(input_x: Any, alpha: float = ...) -> Tensor: ...
def selu(input_x: Any) -> Tensor: ...
def hardsigmoid(input: Any) -> Tensor: ...
def hardswish(input: Any) -> Tensor: ...
