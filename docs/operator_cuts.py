"""What each operator may cut, for its page in the reference: said by its own sharding rule, for a case of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from mpiparallel.graph.elementwise import Elementwise
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.graph import Node
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from tests.conformance.cases.operator_cases import CASES, OperatorCase

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def lines_about(operator: type[Operator]) -> list[str]:
    """Return lines of reStructuredText on what an operator may cut; none where its docstring says it, or no case is."""
    node = _nodes().get(operator)
    if node is None or issubclass(operator, Elementwise):
        return []
    return [".. rubric:: What may be cut", "", told(node.operator.equation(*(value.spec for value in node.inputs))), ""]


def told(rule: Equation) -> str:
    """Return a sharding rule in words: a letter for each dim, those that are never cut, and what follows from a cut."""
    tensors = (*rule.inputs, *rule.outputs)
    named = dict.fromkeys(label for labels in tensors for label in labels if label is not None)
    letters = named if all(len(label) == 1 for label in named) else dict(zip(named, _LETTERS, strict=False))
    names = {label: letters[label] or label for label in named}
    sides = [
        f"{noun}{'s' if len(side) > 1 else ''} {', '.join(_dims(labels, names) for labels in side)}"
        for noun, side in (("Input", rule.inputs), ("output", rule.outputs))
        if side
    ]
    sentences = [f"{'; '.join(sides)}."]
    if any(label is None for labels in tensors for label in labels):
        sentences.append("Dims named 1 are not cut.")
    whole = [names[label] for label in named if label in rule.whole]
    summed = [
        names[label]
        for label in named
        if label not in rule.whole and any(label not in labels for labels in rule.outputs)
    ]
    if whole:
        sentences.append(f"Never cut: {', '.join(whole)}.")
    if summed:
        *first, last = summed
        sentences.append(f"Where {', '.join(first)}{' or ' if first else ''}{last} is cut, an AllReduce follows.")
    return " ".join(sentences)


def _dims(labels: Labels, names: dict[str, str]) -> str:
    inside = ", ".join("1" if label is None else names[label] for label in labels)
    return f"``({inside}{',' if len(labels) == 1 else ''})``"


@cache
def _nodes() -> dict[type[Operator], Node]:
    """Return a node of each operator that has a case, with the inputs of its first one."""
    found: dict[type[Operator], Node] = {}
    for case in CASES:
        operator = case.build()
        if type(operator) not in found:
            nodes = _traced(case, operator)
            own = next((node for node in nodes if type(node.operator) is type(operator)), None)
            if own is not None:
                found[type(operator)] = own
    return found


def _traced(case: OperatorCase, operator: Operator) -> Sequence[Node]:
    trace = Trace()
    tensors: list[Tensor] = []
    for place, array in enumerate(case.inputs):
        if place in operator.updates:
            tensors.append(Parameter(array, f"p{place}"))
        else:
            tensors.append(Tensor.of_value(trace.graph.add_input(f"input{place}", Tensor(array).spec)))
    with recording(trace):
        case.apply(operator, tensors)
    return trace.graph.nodes
