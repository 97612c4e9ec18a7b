"""A traced program of one operator case on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import Part
from mpiparallel.compile.differentiate import differentiate
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.testing.operator_case import OperatorCase

Array = Any


@dataclass
class CaseProgram:
    """A case that runs as a program, with random ``weights`` for its differentiable outputs and their sum's gradients.

    A run gives the outputs, then the gradient of ``sum(outputs * weights)`` for each differentiable input.
    """

    case: OperatorCase
    weights: list[Array]
    program: Program

    @classmethod
    def of(cls, case: OperatorCase) -> CaseProgram:
        """Trace, differentiate and bind a case."""
        trace = Trace()
        tensors = [Tensor(array) for array in case.inputs]
        inputs = [trace.graph.add_input(f"input{index}", tensor.spec) for index, tensor in enumerate(tensors)]
        with recording(trace):
            outputs = [
                trace.value_of(one) for one in case.apply(case.build(), [Tensor.of_value(value) for value in inputs])
            ]
        weights, gradients = [], []
        if case.differentiable:
            chosen = [outputs[index] for index in case.outputs]
            random = np.random.default_rng(0)
            weights = [random.uniform(0.5, 1.5, value.spec.shape) for value in chosen]
            seeds = [trace.graph.add_constant(weight) for weight in weights]
            gradients = differentiate(trace, chosen, seeds, [inputs[index] for index in case.differentiable])
        trace.graph.outputs = [*outputs, *gradients]
        trace.graph.remove_dead_nodes()
        for node in trace.graph.nodes:
            parts = [[Part.whole(value.spec.shape) for value in values] for values in (node.inputs, node.outputs)]
            node.operator = node.operator.local(*parts)
        return cls(case, weights, Program(trace.graph, Runtime()))

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return copies of what one run gives."""
        return [np.array(array) for array in self.program.run(inputs)]

    def objective(self, inputs: Sequence[Array]) -> float:
        """Return the weighted sum of the differentiable outputs."""
        outputs = self.program.run(inputs)
        return sum(
            float((outputs[index] * weight).sum())
            for index, weight in zip(self.case.outputs, self.weights, strict=True)
        )


def check_gradient_of(case: OperatorCase, step: float, rtol: float, atol: float) -> None:
    """Raise AssertionError where a gradient of a case is not that of central differences by ``step``."""
    program = CaseProgram.of(case)
    gradients = program.run(case.inputs)[-len(case.differentiable) :]
    for index, gradient in zip(case.differentiable, gradients, strict=True):
        inputs = [np.array(array) for array in case.inputs]
        varied = inputs[index]
        found = gradient.shape, gradient.dtype
        if found != (varied.shape, varied.dtype):
            raise AssertionError(f"{case.name}: the gradient of input {index} has shape and dtype {found}")
        numeric = np.zeros_like(varied)
        for place in np.ndindex(varied.shape):
            for change in (step, -step):
                varied[place] = case.inputs[index][place] + change
                numeric[place] += program.objective(inputs) / (2 * change)
            varied[place] = case.inputs[index][place]
        np.testing.assert_allclose(gradient, numeric, rtol, atol, err_msg=f"{case.name}: gradient of input {index}")
