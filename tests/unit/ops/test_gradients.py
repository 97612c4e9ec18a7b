from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import nn, ops
from mpiparallel.compile.differentiate import differentiate
from mpiparallel.errors import GradientError
from mpiparallel.graph.graph import Value
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.ops import operations as P
from mpiparallel.ops.gradients import gradient
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


X = np.array([1.0, 3.0, 2.0])


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x * ops.argmax(x), 1.0),
        (lambda x: x * ops.reduce_any(x > 2.5), 1.0),
        (lambda x: x * ops.reduce_all(x > 2.5), 0.0),
        (lambda x: x * ops.one_hot(np.array(1), 3, x.sum(), 1.0).sum(), 6.0 + 2.0),
    ],
)
def test_places_comparisons_and_marks_are_constants_to_a_gradient(function: Any, wanted: float) -> None:
    assert ops.grad(lambda x: function(x).sum())(Tensor(X)).tolist() == [wanted] * 3


def test_something_to_differentiate_by_is_given() -> None:
    with pytest.raises(GradientError, match="value_and_grad: give grad_position or weights, something to differentiat"):
        ops.value_and_grad(lambda x: x.sum(), None)


def test_an_operator_without_a_gradient_says_so_by_its_name() -> None:
    with pytest.raises(GradientError, match="the gradient of AssignAdd is not defined; take it out of the differentia"):
        ops.AssignAdd().gradient([], [], [])


def test_a_gradient_of_a_loss_that_has_none_of_its_own_says_so() -> None:
    labels, logits = Tensor(np.array([1, 0])), Tensor(np.ones((2, 3)))
    loss = P.SparseSoftmaxCrossEntropyWithLogits()
    with pytest.raises(GradientError, match="it is a gradient and has none of its own"):
        ops.grad(lambda x: (ops.grad(lambda y: loss(y, labels))(x) * x).sum())(logits)


def test_a_sum_of_integers_in_a_network_is_that_of_numpy() -> None:
    given = [np.arange(6).reshape(2, 3) * factor for factor in (1, 10, 100)]

    class Sum(nn.Cell):
        def construct(self, x: Any, y: Any, z: Any) -> Any:
            return ops.addn([x, y, z]) * 2

    found = Sum()(*map(Tensor, given))
    assert (found.dtype, found.tolist()) == (np.int64, (222 * given[0]).tolist())


def test_a_gradient_is_taken_in_a_trace() -> None:
    with pytest.raises(GradientError, match=r"^a gradient is taken outside a trace$"):
        gradient._traced_gradient(ops.square, [1.0], {}, [0], [], None, False)
