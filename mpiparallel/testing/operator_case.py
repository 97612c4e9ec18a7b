"""A case of an operator: the operator with inputs, to be tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor

Array = Any


@dataclass(frozen=True)
class OperatorCase:
    """An operator with inputs.

    ``build`` makes the operator, which is called with the input tensors, then ``arguments``; ``call`` calls it
    where its signature is another. ``differentiable`` are the inputs that have a gradient, ``outputs`` those that it
    is the gradient of. Inputs named by the operator's ``updates`` are given as parameters. ``every_strategy`` is False
    where another case, such as that of which it is the gradient, runs the same under every strategy.
    """

    name: str
    build: Callable[[], Operator]
    inputs: tuple[Array, ...]
    arguments: tuple[Any, ...] = ()
    differentiable: tuple[int, ...] = ()
    outputs: tuple[int, ...] = (0,)
    call: Callable[[Operator, Sequence[Tensor]], Any] | None = None
    every_strategy: bool = True

    def apply(self, operator: Operator, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Apply the operator to tensors that stand for the inputs and return its outputs."""
        result = operator(*tensors, *self.arguments) if self.call is None else self.call(operator, tensors)
        return result if isinstance(result, tuple) else (result,)
