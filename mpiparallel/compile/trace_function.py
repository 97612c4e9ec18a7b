"""The pass that records a function as a graph on whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.structure import Options, Structure, flatten, rebuild
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Condition, Trace, recording


@dataclass(frozen=True)
class Traced:
    """A function's graph, how its outputs make up what the function returns, and on what it depends besides."""

    graph: Graph
    structure: Structure
    conditions: Mapping[Condition, object]
    operators: Mapping[Operator, tuple[object, ...]]
    attributes: Mapping[Condition, object]

    @property
    def holds(self) -> bool:
        """Whether all conditions are as they were."""
        return _are_as_before(self.conditions)

    @property
    def is_current(self) -> bool:
        """Whether a trace now would give the same graph: operators and attributes of networks are as they were, too."""
        are_set_alike = all(operator.settings == before for operator, before in self.operators.items())
        return self.holds and are_set_alike and _are_as_before(self.attributes)


def _are_as_before(conditions: Mapping[Condition, object]) -> bool:
    try:
        return all(condition() == before for condition, before in conditions.items())
    except ReferenceError:
        # A network that the function called is gone, so it will not call it again.
        return False


def trace_function(
    function: Callable[..., Any], specs: Sequence[TensorSpec], inputs: Structure, of_micro_batch: bool = False
) -> Traced:
    """Return the graph of ``function`` on inputs of these global shapes; no data, MPI or devices are needed.

    ``inputs`` is the structure of its arguments, whose leaves are of ``specs``. With ``of_micro_batch`` these are one
    piece of a batch, which is not cut further.
    """
    trace = Trace()
    given = [trace.graph.add_input(f"input{index}", spec) for index, spec in enumerate(specs)]
    with recording(trace), trace.of_micro_batch(0) if of_micro_batch else nullcontext():
        result = called(function, rebuild(inputs, [Tensor.of_value(value) for value in given]))
        leaves: list[Any] = []
        structure = flatten(result, leaves)
        trace.graph.outputs = [trace.value_of(leaf if isinstance(leaf, Tensor) else Tensor(leaf)) for leaf in leaves]
    # After it: some make parameters or operators when they are first called.
    attributes = {told: told() for told in trace.attributes}
    return Traced(trace.graph, structure, trace.conditions, trace.operators, attributes)


def called(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Return what a function returns for arguments, the last of which may be those by name."""
    if arguments and isinstance(arguments[-1], Options):
        return function(*arguments[:-1], **arguments[-1])
    return function(*arguments)
