"""Gradients summed over several runs of a program."""

from __future__ import annotations

from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import active_trace
from mpiparallel.ops.variables.assignment import AssignAdd


class AddTerms(AssignAdd):
    """``variable += gradient``, where the variable holds as many terms of a sum over ranks as the gradient has.

    So ranks add up what each of them computes, and sum over ranks once, where the variable is used.
    """

    keeps_partial = True


def add_to_gradient(total: Parameter, gradient: Tensor, weight: Parameter) -> Tensor:
    """Add the gradient of a weight to ``total`` and return it, which is then a gradient of the weight itself."""
    AddTerms()(total, gradient)
    trace = active_trace()
    if trace is not None:
        trace.graph.gradients[trace.value_of(total)] = trace.value_of(weight)
    return total
