"""The update of a moving average."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.operator import Kernel, register
from mpiparallel.ops.variables.assignment import Assignment


@register
class AssignMovingAverage(Assignment):
    """``variable = momentum * variable + (1 - momentum) * correction * value``.

    The variable is laid out as ``value`` is, so moving statistics are cut with the channels.

    Parameters
    ----------
    momentum : float
        The share of the variable that stays.
    correction : float
        By which the value is multiplied.

    Examples
    --------
    >>> from mpiparallel.graph.parameter import Parameter
    >>> variable = Parameter([10.0], "variable")
    >>> _ = AssignMovingAverage()(variable, [20.0])
    >>> variable.asnumpy().tolist()
    [11.0]
    """

    laid_out_as = 1

    def __init__(self, momentum: float = 0.9, correction: float = 1.0) -> None:
        self.momentum = momentum
        self.correction = correction

    def expression(self, *inputs: Term) -> Sequence[Term]:
        variable, value = inputs
        return (variable * self.momentum + value * ((1.0 - self.momentum) * self.correction),)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, (variable, value) = runtime.array_module, inputs
        term = runtime.scratch(tuple(value.shape), value.dtype)

        def run() -> None:
            xp.multiply(value, (1.0 - self.momentum) * self.correction, out=term)
            xp.multiply(variable, self.momentum, out=variable)
            xp.add(variable, term, out=variable, casting="same_kind")

        return run
