"""Whether a step's loss and gradients are finite: one verdict, the same on all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiparallel import ops
from mpiparallel.context.settings import current_configuration
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.reductions.float_status import AgreedMaximum


class FiniteCheck:
    """The verdict on the last step, in parameters: ``sound`` is 1 where all numbers of all ranks are finite.

    ``statuses`` has one number for the loss and one for each gradient of ``weights``, 1 where some rank found one that
    is not finite. Ranks agree in one AllReduce of these numbers. ``judges`` says that a step has been made to ask.
    """

    def __init__(self, weights: Sequence[Parameter]) -> None:
        self.weights = tuple(weights)
        size = len(self.weights) + 1
        self.statuses = Parameter(np.zeros(size, np.float32), "float_statuses", requires_grad=False)
        self.sound = Parameter(np.ones((), np.int32), "step_is_sound", requires_grad=False)
        self.statuses.transient = self.sound.transient = True
        self.judges = False

    def judge(self, loss: Tensor, gradients: Sequence[Tensor]) -> None:
        """Find the verdict on a step."""
        self.judges = True
        found = ops.Concat()([ops.FloatStatus()(one) for one in (loss, *gradients)])
        count = current_configuration().device_num
        if count > 1:
            found = AgreedMaximum(tuple(range(count)))(found)
        ops.Assign()(self.statuses, found)
        ops.Assign()(self.sound, (ops.ReduceMax()(found) == 0.0).astype(np.int32))

    @property
    def was_sound(self) -> bool:
        """Whether all numbers of the last step were finite."""
        return bool(self.sound.asnumpy())

    @property
    def loss_was_finite(self) -> bool:
        """Whether the loss of the last step was finite on all ranks."""
        return not self.statuses.asnumpy()[0]

    def culprits(self) -> list[str]:
        """Return the names of the weights whose gradients in the last step were not finite, in the network's order."""
        pairs = zip(self.weights, self.statuses.asnumpy()[1:], strict=True)
        return [weight.name for weight, status in pairs if status]
