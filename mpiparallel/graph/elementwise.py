"""Element-wise operators, each made of its row in the tables of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import common_dtype, is_floating, is_inexact
from mpiparallel.graph.broadcasting import broadcast_equation, broadcast_shape, sum_to
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.function import Function
from mpiparallel.graph.expression.function_docstring import operator_docstring
from mpiparallel.graph.expression.term import Term, call, operand, widened
from mpiparallel.graph.input_checks import check_bool, check_floating
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]


def promote(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that tensors of these dtypes make together; integers take that of the floats beside them.

    >>> promote(np.dtype(np.int64), np.dtype(np.float32))
    dtype('float32')
    """
    floats = [dtype for dtype in dtypes if is_inexact(dtype)]
    return common_dtype(*(floats or dtypes))


class Broadcasting(Operator):
    """An operator that computes each element of its output from one element of each input."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = broadcast_shape(*(spec.shape for spec in inputs))
        return (TensorSpec(shape, self.result_dtype(*(spec.dtype for spec in inputs))),)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the output."""
        return promote(*dtypes)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return broadcast_equation(*(spec.shape for spec in inputs))


class Elementwise(Broadcasting):
    """An operator that a row describes; its options are attributes."""

    function: ClassVar[Function]
    slope: ClassVar[type[Elementwise] | None] = None
    """The operator that computes its gradient in one pass, where one does."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        named = dict(zip(self.function.arguments, inputs, strict=True))
        if self.function.takes == "booleans":
            check_bool(**named)
        elif self.function.takes == "floats" and not is_floating(promote(*(spec.dtype for spec in inputs))):
            check_floating(**named)
        return super().infer(*inputs)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        if self.function.gives == "booleans":
            return np.dtype(np.bool_)
        common = promote(*dtypes)
        return common if self.function.gives == "numbers" or is_inexact(common) else np.dtype(np.float32)

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        if self.function.terms is not None:
            result = self.result_dtype(*(one.dtype for one in inputs))
            wide = (one if is_floating(one.dtype) else one.astype(result) for one in inputs)
            return (self.function.terms(*wide, **self.options),)
        if not self.function.text or not self._is_term_of({one.dtype.kind for one in inputs}):
            return None
        return (call(self.function.universal, *inputs),)

    def _is_term_of(self, kinds: set[str]) -> bool:
        """Return whether elements of these kinds make a term: floats, bools to be combined, numbers to be compared."""
        if self.function.takes == "booleans":
            return kinds == {"b"}
        if self.function.gives == "booleans":
            return len(kinds) == 1 and "c" not in kinds
        return kinds <= {"f", "b"} and "f" in kinds

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        row, target = self.function, outputs[0]
        if row.terms is not None or row.numpy is not None or self._is_compiled(runtime, inputs):
            return super().kernel(runtime, inputs, outputs)
        function = getattr(runtime.array_module, row.universal)
        if row.gives == "floats":
            return partial(function, *inputs, out=target, dtype=target.dtype, casting="unsafe")
        return partial(function, *inputs, out=target)

    def _is_compiled(self, runtime: Runtime, inputs: Sequence[Array]) -> bool:
        """Return whether the device compiles kernels, and this can be one."""
        if runtime.backend.kernels is None:
            return False
        return self.expression(*(widened(operand(0, one.shape, one.dtype)) for one in inputs)) is not None

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        if self.slope is not None:
            values = {"dy": gradients[0], "y": outputs[0], "x": inputs[0]}
            return (self.slope()(*(values[name] for name in self.slope.function.arguments)),)
        if self.function.derivative is None:
            return (None,) * len(inputs)
        found = self.function.derivative(gradients[0], outputs[0], *inputs, **self.options)
        each = found if isinstance(found, tuple) else (found,)
        return tuple(sum_to(one, x.shape) for one, x in zip(each, inputs, strict=True))

    @property
    def options(self) -> dict[str, Any]:
        """What the operator is configured by."""
        return {name: getattr(self, name) for name in self.function.options}


class Unary(Elementwise):
    """An element-wise function of one tensor."""

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)


class Binary(Elementwise):
    """An element-wise function of two tensors."""

    def __call__(self, x: Any, y: Any) -> Any:
        return super().__call__(x, y)


def operator_of(function: Function, module: str) -> type[Elementwise]:
    """Return the operator of a row, as a class of ``module``.

    >>> from mpiparallel.graph.expression.universal_functions import universal_function
    >>> operator_of(universal_function("maximum"), __name__)()([1.0, 4.0], [3.0, 2.0]).asnumpy().tolist()
    [3.0, 4.0]
    """
    count = len(function.arguments)
    is_comparison = function.gives == "booleans" and function.takes != "booleans"
    body = {
        "__module__": module,
        "__doc__": operator_docstring(function),
        "function": function,
        "slope": None if function.gradient is None else operator_of(function.gradient, module),
        "reuses": () if is_comparison else tuple(range(count)),
    }
    if function.options:
        body["__init__"] = _taking(function)
    return type(function.name, (Unary if count == 1 else Binary,), body)


def _taking(function: Function) -> Callable[..., None]:
    """Return the ``__init__`` of an operator with options."""
    of_self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.Signature([of_self, *option_parameters(function)])

    def configure(*given: Any, **named: Any) -> None:
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        own, *options = bound.arguments.values()
        vars(own).update(zip(function.options, options, strict=True))

    configure.__signature__ = signature  # type: ignore[attr-defined]
    return configure


def option_parameters(function: Function) -> list[inspect.Parameter]:
    """Return the options of a row as parameters of a call."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(name, kind, default=default) for name, default in function.options.items()]
