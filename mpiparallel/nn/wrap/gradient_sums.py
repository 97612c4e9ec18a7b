"""Gradients added up over several batches, for one update."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.initializer import Constant
from mpiparallel.ops.gradients.gradient_sum import add_to_gradient


class GradientSums:
    """The sums of the gradients of ``weights`` over ``steps`` batches, and how many are in them.

    Each rank keeps what it has computed itself. Where the gradient of a batch is one term of a sum over ranks, so is
    the sum over batches. So the ranks exchange once for all batches. ``full`` is 1 in the run in which the last batch
    has come. Between updates the sums are 0, so they are neither saved nor moved. Raises ConfigurationError unless
    ``steps`` is an integer of at least 1.
    """

    def __init__(self, weights: Sequence[Parameter], steps: int) -> None:
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise ConfigurationError(f"accumulation_steps {steps!r} must be an integer of at least 1")
        self.steps = steps
        self.weights = tuple(weights)
        self.totals = tuple(weight.twin("accu_grads", Constant(0.0)) for weight in weights)
        self.count = Parameter(np.zeros((), np.int32), "accumulated_batches", requires_grad=False)
        self.full = Parameter(np.zeros((), np.int32), "accumulation_full", requires_grad=False)
        for parameter in (*self.totals, self.count, self.full):
            parameter.transient = True

    def add(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Add the gradients of a batch and return the sums."""
        totals = [add_to_gradient(*three) for three in zip(self.totals, gradients, self.weights, strict=True)]
        count = self.count + 1
        ops.Assign()(self.full, (count == self.steps).astype(np.int32))
        ops.Assign()(self.count, count)
        return totals

    def clear(self) -> None:
        """Set the sums to 0."""
        for total in self.totals:
            ops.Assign()(total, 0.0)
        ops.Assign()(self.count, 0)

    def forget(self) -> None:
        """Set the sums of a step that was broken off to 0, outside a program."""
        if int(self.count.asnumpy()):
            for parameter in (*self.totals, self.count):
                parameter.array.fill(0)
