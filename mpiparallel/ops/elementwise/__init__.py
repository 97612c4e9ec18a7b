"""MindSpore's element-wise operators, functions and methods of tensors that are rows of the tables of functions.

Its stub names them all, and is written from what is made here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from mpiparallel.graph.elementwise import Elementwise, operator_of, option_parameters
from mpiparallel.graph.expression.composed_functions import COMPOSED_FUNCTIONS
from mpiparallel.graph.expression.function import Function
from mpiparallel.graph.expression.function_docstring import function_docstring
from mpiparallel.graph.expression.functions_of_two import ADDITION
from mpiparallel.graph.expression.universal_functions import UNIVERSAL_FUNCTIONS
from mpiparallel.graph.operator import register
from mpiparallel.graph.own_operators import Add
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_operations import TensorOperations
from mpiparallel.ops.application import applied

ROWS: Final = (*UNIVERSAL_FUNCTIONS, *COMPOSED_FUNCTIONS)


def _operator(row: Function) -> type[Elementwise]:
    """Return the operator of a row, and enter it and that of its gradient."""
    if row is ADDITION:
        return Add
    operator = register(operator_of(row, __name__))
    if operator.slope is not None:
        register(operator.slope)
    return operator


def _function(row: Function, operator: type[Elementwise]) -> Callable[..., Tensor]:
    """Return the function of a row: it takes the tensors, then the operator's options."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    tensors = [inspect.Parameter(name, kind, annotation=Any) for name in row.arguments]
    signature = inspect.Signature([*tensors, *option_parameters(row)], return_annotation=Tensor)

    def function(*given: Any, **named: Any) -> Tensor:
        values = signature.bind(*given, **named).args
        return applied(operator(*values[len(tensors) :]), *values[: len(tensors)])

    return _named(function, row.functions.split()[0], function_docstring(row), signature)


def _method(row: Function, operator: type[Elementwise]) -> Callable[..., Tensor]:
    """Return the method of a row: it takes the second tensor, where there is one."""
    about = f"Return {row.about}."
    if len(row.arguments) == 1:
        return _named(lambda self: applied(operator(), self), row.methods.split()[0], about)
    return _named(lambda self, other: applied(operator(), self, other), row.methods.split()[0], about)


def _named(function: Any, name: str, about: str, signature: inspect.Signature | None = None) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = about
    if signature is not None:
        function.__signature__ = signature
    named: Callable[..., Tensor] = function
    return named


OPERATORS: Final = {row: _operator(row) for row in ROWS}
SLOPES: Final = [operator.slope for operator in OPERATORS.values() if operator.slope is not None]
FUNCTIONS: Final = {row: _function(row, operator) for row, operator in OPERATORS.items() if row.functions}
METHODS: Final = {row: _method(row, operator) for row, operator in OPERATORS.items() if row.methods}

for _row, _attached in METHODS.items():
    for _name in _row.methods.split():
        setattr(TensorOperations, _name, _attached)
vars().update({operator.__name__: operator for operator in (*OPERATORS.values(), *SLOPES)})
vars().update({name: function for row, function in FUNCTIONS.items() for name in row.functions.split()})
