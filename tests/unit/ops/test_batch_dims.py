"""Which dim of an operator's tensors data parallelism cuts: the first that may be cut, in every operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mpiparallel.graph.equation import Equation
from mpiparallel.graph.graph import Node
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES

BY_NAME = {name: [case for case in CASES if case.build().name == name] for name in {one.build().name for one in CASES}}
OF_INPUT = {"Gather": 1, "GatherGrad": 0, "OneHot": 0, "BroadcastTo": 0, "Tile": 0}
"""Of which input the batch is where others have as many dims: a table is that of all rows, new dims have no rows."""
UNCUT = {"Fill", "SliceGrad"}
"""What is made of a number, and a gradient that lies as the slice does."""


def rules_of(case: OperatorCase) -> Iterator[tuple[str, bool, Equation]]:
    """Yield the name and the rule of each step of an operator's call, and whether it follows its input."""
    operator = case.build()
    if operator.updates:
        yield operator.name, operator.follows, operator.equation(*(Tensor(array).spec for array in case.inputs))
        return
    trace = Trace()
    values = [trace.graph.add_input(str(index), Tensor(array).spec) for index, array in enumerate(case.inputs)]
    with recording(trace):
        case.apply(operator, [Tensor.of_value(value) for value in values])
    for node in trace.graph.nodes:
        yield type(node.operator).__name__, node.operator.follows, rule_of(node)


def rule_of(node: Node) -> Equation:
    rule: Equation = node.operator.equation(*(value.spec for value in node.inputs))
    return rule


def first_labels(name: str, rule: Equation) -> set[str]:
    """Return the label of the first dim that may be cut, of each of the tensors that have most dims or of one input."""
    tensors = (*rule.inputs, *rule.outputs)
    most = max(map(len, tensors))
    chosen = [rule.inputs[OF_INPUT[name]]] if name in OF_INPUT else [one for one in tensors if len(one) == most]
    found = [[label for label in one if label and label not in rule.whole] for one in chosen]
    return {labels[0] for labels in found if labels}


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_data_parallelism_cuts_the_first_dim_that_may_be_cut(name: str) -> None:
    for case in BY_NAME[name]:
        for step, follows, rule in rules_of(case):
            firsts = first_labels(step, rule)
            if rule.batch is None:
                assert follows or step in UNCUT or not firsts, case.name
            else:
                assert rule.batch in firsts or not firsts, case.name
