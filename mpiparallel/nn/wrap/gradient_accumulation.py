"""Gradients of several steps in one update, for training steps of one's own (MindSpore's ``boost``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.guard import only_if
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.optimizer.optimizer import Optimizer
from mpiparallel.nn.wrap.gradient_sums import GradientSums


class GradientAccumulation(Cell):
    """Updates in every ``max_accumulation_step``-th call, along the mean of the gradients of these calls.

    It is called with the loss and the gradients of ``optimizer.parameters``, and returns the loss. Ranks sum gradients
    in the call that updates only. Raises ConfigurationError for wrong arguments.

    >>> import numpy as np
    >>> from mpiparallel import Tensor, nn, ops
    >>> class Step(nn.Cell):
    ...     def __init__(self, network, optimizer):
    ...         super().__init__(auto_prefix=False)
    ...         self.network, self.weights = network, optimizer.parameters
    ...         self.accumulate = GradientAccumulation(2, optimizer)
    ...         self.gradients = ops.GradOperation(get_by_list=True)
    ...     def construct(self, x):
    ...         return self.accumulate(self.network(x), self.gradients(self.network, self.weights)(x))
    >>> network = nn.Dense(1, 1, weight_init="ones", has_bias=False)
    >>> step = Step(network, nn.SGD(network.trainable_params(), 0.5))
    >>> [float((step(Tensor([[x]])), network.weight.asnumpy())[1][0, 0]) for x in (1.0, 2.0, 4.0)]
    [1.0, 0.25, 0.25]
    """

    def __init__(self, max_accumulation_step: int, optimizer: Optimizer) -> None:
        super().__init__(auto_prefix=False)
        if not isinstance(optimizer, Optimizer):
            raise ConfigurationError(
                f"GradientAccumulation: optimizer is a {type(optimizer).__name__}; give one of mpiparallel.nn"
            )
        self.optimizer = optimizer
        self._sums = GradientSums(optimizer.parameters, max_accumulation_step)

    def construct(self, loss: Tensor, grads: Sequence[Tensor]) -> Tensor:
        """Add the gradients, update if enough have come, and return ``loss``."""
        totals = self._sums.add(grads)
        only_if(self._sums.full, partial(self._update, totals))
        return loss

    def _update(self, totals: Sequence[Tensor]) -> None:
        self.optimizer(tuple(total * (1.0 / self._sums.steps) for total in totals))
        self._sums.clear()
