"""Updates that wait for flags, decided where the device computes them: the host reads no flag between two kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.expression.term import Term, call, operand, uncast, widened
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.graph.operator import Operator


class ConditionalUpdate(Operator):
    """An update that leaves all as it is where one of its ``flags``, the last of its inputs, is 0.

    Its other inputs are those of ``rule``, which says the update as terms.
    """

    def __init__(self, rule: Operator, flags: int) -> None:
        self.rule = rule
        self.flags = flags
        self.updates = rule.updates  # type: ignore[misc]
        self.joins = rule.joins  # type: ignore[misc]
        self.scope = rule.scope

    @property
    def name(self) -> str:
        """The name of the rule, by which a profile counts it."""
        return self.rule.name

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        """Return what the rule costs."""
        return self.rule.cost(inputs[: -self.flags], outputs)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        given, flags = inputs[: -self.flags], inputs[-self.flags :]
        holds = reduce(lambda one, other: call("logical_and", one, other), (call("not_equal", one, 0) for one in flags))
        found = []
        for position, term in zip(self.updates, self.rule.expression(*given) or (), strict=True):
            stored = uncast(given[position]).dtype
            found.append(call("where", holds, widened(term.astype(stored)), given[position]))
        return found


def decide_on_device(graph: Graph) -> None:
    """Let updates read the flags that they wait for where they run; what leads to them runs in any case.

    Flags that keep ranks from communicating stay the host's to read: a message that is not sent costs less than one
    that nobody needs. So do those of what the device cannot leave undone by itself.
    """
    read = {flag for node in graph.nodes if _needs_host(node) for flag in node.notes.guards}
    for node in graph.nodes:
        flags = tuple(flag for flag in node.notes.guards if flag not in read)
        if not flags:
            continue
        if node.operator.updates:
            node.operator = ConditionalUpdate(node.operator, len(flags))
            node.inputs = (*node.inputs, *flags)
        node.notes = replace(node.notes, guards=tuple(flag for flag in node.notes.guards if flag in read))


def _needs_host(node: Node) -> bool:
    """Return whether a node must not be begun where it is not wanted."""
    operator = node.operator
    if operator.kind == "communication" or not operator.replays:
        return True
    return not node.outputs and not (operator.updates and _is_said_in_terms(node))


def _is_said_in_terms(node: Node) -> bool:
    shown = (operand(place, value.spec.shape, value.spec.dtype) for place, value in enumerate(node.inputs))
    return node.operator.expression(*map(widened, shown)) is not None
