from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.compile.differentiate import differentiate
from mpiparallel.errors import GradientError
from mpiparallel.graph.graph import Value
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.ops import operations as P
from mpiparallel.testing.case_program import CaseProgram, check_gradient_of
from mpiparallel.testing.operator_case import OperatorCase
from mpiparallel.testing.operator_checks import STEP
from tests.conformance.cases.operator_cases import CASES


@pytest.mark.parametrize("case", [case for case in CASES if case.differentiable], ids=lambda case: case.name)
def test_the_gradient_is_that_of_central_differences(case: OperatorCase) -> None:
    check_gradient_of(case, STEP, rtol=1e-6, atol=1e-7)


def differentiate_output(operator: P.SoftmaxCrossEntropyWithLogits, output: int) -> list[Value]:
    trace = Trace()
    spec = Tensor(np.ones((6, 5))).spec
    logits, labels = trace.graph.add_input("logits", spec), trace.graph.add_input("labels", spec)
    with recording(trace):
        value = operator(Tensor.of_value(logits), Tensor.of_value(labels))[output].value
        seed = trace.graph.add_constant(np.ones(value.spec.shape))
    return differentiate(trace, [value], [seed], [logits])


def test_the_gradient_of_a_gradient_output_is_refused_rather_than_left_out() -> None:
    with pytest.raises(GradientError, match="SoftmaxCrossEntropyWithLogits: its second output is a gradient"):
        differentiate_output(P.SoftmaxCrossEntropyWithLogits(), 1)
    assert differentiate_output(P.SoftmaxCrossEntropyWithLogits(), 0)


def test_what_is_stopped_has_gradient_zero() -> None:
    case = OperatorCase("StopGradient", P.StopGradient, (np.ones((2, 3)),), (), (0,))
    assert not CaseProgram.of(case).run(case.inputs)[-1].any()
