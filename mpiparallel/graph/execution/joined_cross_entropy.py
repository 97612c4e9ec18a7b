"""The mean cross entropy of logits with its gradient: one launch where the device has the kernel, else one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.one_by_one import one_by_one
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.graph import Node, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.written_kernels.cross_entropy import mean_loss
from mpiparallel.graph.written_kernels.written_text import has_written_kernels, run_after


@dataclass(frozen=True)
class CrossEntropyNodes:
    """The nodes that are joined, in order; ``loss`` is the one that gives the mean.

    ``logits`` are what the first reads, ``gradient`` is what the last gives, already multiplied by ``factor``.
    """

    nodes: tuple[Node, ...]
    loss: Node
    logits: Value
    gradient: Value
    factor: Value | None = None

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Logits, labels, and the factor if there is one."""
        given = self.logits, self.loss.inputs[1]
        return given if self.factor is None else (*given, self.factor)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The mean, and the gradient for the logits."""
        return self.loss.outputs[0], self.gradient


class JoinedCrossEntropy(Operator):
    """The mean cross entropy, and its gradient for the logits."""

    def __init__(self, joined: CrossEntropyNodes) -> None:
        self._joined = joined

    @property
    def name(self) -> str:
        """The names of the operators, in order."""
        return "+".join(node.operator.name for node in self._joined.nodes)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        logits, labels, *factors = inputs
        mean, gradient = outputs
        is_plain = all(one.flags.c_contiguous for one in (logits, labels, gradient))
        if not is_plain or not logits.size or not has_written_kernels(runtime, logits.dtype, gradient.dtype):
            arrays = zip((*self._joined.inputs, *self._joined.outputs), (*inputs, *outputs), strict=True)
            return one_by_one(runtime, self._joined.nodes, dict(arrays))
        operator: Any = self._joined.loss.operator
        together = mean_loss(runtime, logits, labels, mean, operator.count, gradient, *factors)
        return run_after([operator.bound_check(runtime, labels)], together)
