"""What operators are applied to, and the output of one that has one."""

from __future__ import annotations

from typing import Any

from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor


def applied(operator: Operator, *inputs: Any) -> Tensor:
    """Return what an operator makes of inputs.

    >>> from mpiparallel.ops.shapes.identity import Identity
    >>> applied(Identity(), [1.0]).shape
    (1,)
    """
    result: Tensor = operator(*inputs)
    return result


def as_tensor(x: Any) -> Tensor:
    """Return a tensor itself, and anything else as a tensor.

    >>> as_tensor([1.0]).shape
    (1,)
    """
    return x if isinstance(x, Tensor) else Tensor(x)
