"""Outputs of a part of a network whose gradient the user has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor

Tensors = Sequence[Tensor]
GradientFunction = Callable[[Tensors, Tensors, Tensors], Sequence[Tensor | None]]
"""From the inputs, the outputs and the gradients of these to the gradients of the inputs."""


class OwnGradient(Operator):
    """The first input, or the first few, as they are; the others are what they were computed from.

    The gradient of those others is what ``written`` returns; to the first, and so to all by which they were computed,
    it gives nothing. Each tensor stays where it is.
    """

    is_view = True
    follows = True
    keeps_layouts = True
    outputs = 1

    def __init__(self, written: GradientFunction, inputs: int) -> None:
        self.written = written
        self.unread = tuple(range(self.outputs, self.outputs + inputs))

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return inputs[: self.outputs]

    def equation(self, *inputs: TensorSpec) -> Equation:
        labels = [tuple(f"{place}d{dim}" for dim in range(len(one.shape))) for place, one in enumerate(inputs)]
        return Equation(tuple(labels), tuple(labels[: self.outputs]))

    def view(self, array: Array) -> Array:
        return array

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (*[None] * self.outputs, *self.written(inputs[self.outputs :], outputs, gradients))


class OwnGradients(OwnGradient):
    """The same for several outputs, which are copied."""

    is_view = False

    def __init__(self, written: GradientFunction, inputs: int, outputs: int) -> None:
        self.outputs = outputs
        super().__init__(written, inputs)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        copyto, pairs = runtime.array_module.copyto, [*zip(outputs, inputs, strict=False)]

        def run() -> None:
            for target, source in pairs:
                copyto(target, source)

        return run
