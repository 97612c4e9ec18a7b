"""Element-wise operators: what they share, functions of one tensor, and change of dtype."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.expression.term import ARITHMETIC, PREDICATES, Term, call
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.registry import register
from mpiparallel.graph.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.ops.broadcasting import broadcast_equation, broadcast_shape

Tensors = Sequence[Tensor]


def promote(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that tensors of these dtypes make together; integers take that of the floats beside them.

    >>> promote(np.dtype(np.int64), np.dtype(np.float32))
    dtype('float32')
    """
    floats = [dtype for dtype in dtypes if dtype.kind in "fc"]
    return np.result_type(*(floats or dtypes))


def is_expressible(function: str, dtypes: Sequence[np.dtype[Any]]) -> bool:
    """Return whether a function of these dtypes is a term: arithmetic of floats, logic of bools, any comparison."""
    kinds = {dtype.kind for dtype in dtypes}
    if function.startswith("logical"):
        return kinds == {"b"}
    if function in PREDICATES:
        return len(kinds) == 1 and not kinds & {"c"}
    return function in ARITHMETIC and kinds <= {"f", "b"} and "f" in kinds


class Elementwise(Operator):
    """An operator that computes each element of its output from one element of each input."""

    function: ClassVar[str]
    """The name of the universal function in the array library."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = broadcast_shape(*(spec.shape for spec in inputs))
        return (TensorSpec(shape, self.result_dtype(*(spec.dtype for spec in inputs))),)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the output."""
        return promote(*dtypes)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return broadcast_equation(*(spec.shape for spec in inputs))

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        dtypes = [one.dtype for one in inputs]
        if not is_expressible(getattr(self, "function", ""), dtypes):
            return None
        term = call(self.function, *inputs)
        return (term,) if term.dtype == self.result_dtype(*dtypes) else None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        function = getattr(runtime.array_module, self.function)
        return partial(function, *inputs, out=outputs[0])


class Unary(Elementwise):
    """An element-wise function of one tensor, which may be computed in its memory."""

    reuses = (0,)

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)


@register
class Neg(Unary):
    """``-x``."""

    function = "negative"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (-gradients[0],)


class FloatFunction(Unary):
    """An element-wise function whose values are of floating point: integers give float32."""

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return dtypes[0] if dtypes[0].kind in "fc" else np.dtype(np.float32)


@register
class Exp(FloatFunction):
    """e to the power of ``x``."""

    function = "exp"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0] * outputs[0],)


@register
class Log(FloatFunction):
    """The natural logarithm of ``x``."""

    function = "log"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0] / inputs[0],)


@register
class Sqrt(FloatFunction):
    """The square root of ``x``."""

    function = "sqrt"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0] * 0.5 / outputs[0],)


@register
class Rsqrt(FloatFunction):
    """``1 / sqrt(x)``."""

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        return (1.0 / call("sqrt", inputs[0]),) if inputs[0].dtype.kind == "f" else None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, x, target = runtime.array_module, inputs[0], outputs[0]

        def run() -> None:
            xp.sqrt(x, out=target)
            xp.reciprocal(target, out=target)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0] * -0.5 * outputs[0] / inputs[0],)


@register
class Reciprocal(FloatFunction):
    """``1 / x``."""

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        return (1.0 / inputs[0],) if inputs[0].dtype.kind == "f" else None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.true_divide, 1, inputs[0], out=outputs[0])

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (-gradients[0] * outputs[0] * outputs[0],)


@register
class Sin(FloatFunction):
    """The sine of ``x``, in radians."""

    function = "sin"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0] * Cos()(inputs[0]),)


@register
class Cos(FloatFunction):
    """The cosine of ``x``, in radians."""

    function = "cos"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (-gradients[0] * Sin()(inputs[0]),)


@register
class Floor(Unary):
    """The largest integer not above ``x``, of its dtype; its gradient is 0."""

    function = "floor"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (None,)


@register
class Square(Unary):
    """``x * x``."""

    function = "square"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0] * inputs[0] * 2.0,)


@register
class Abs(Unary):
    """The absolute value of ``x``; its gradient at 0 is 0."""

    function = "absolute"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (gradients[0] * Sign()(inputs[0]),)


@register
class Sign(Unary):
    """-1, 0 or 1; its gradient is 0."""

    function = "sign"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (None,)


@register
class Tanh(FloatFunction):
    """The hyperbolic tangent of ``x``."""

    function = "tanh"

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        y, gradient = outputs[0], gradients[0]
        return (gradient - gradient * y * y,)


@register
class Cast(Operator):
    """``x`` with elements of another dtype; between floats the gradient is cast back, elsewhere there is none."""

    dtype: np.dtype[Any] = np.dtype(np.float32)
    follows = True
    linear = True

    def __call__(self, x: Any, dtype: Any = None) -> Any:
        return Operator.__call__(self.configured(dtype=np.dtype(self.dtype if dtype is None else dtype)), x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(inputs[0].shape, self.dtype),)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.same(len(inputs[0].shape))

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        return (inputs[0].astype(self.dtype),) if self.dtype.kind == "f" and inputs[0].dtype.kind in "fiub" else None

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return partial(runtime.array_module.copyto, outputs[0], inputs[0], casting="unsafe")

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        source = inputs[0].dtype
        return (gradients[0].astype(source) if source.kind in "fc" and self.dtype.kind in "fc" else None,)
