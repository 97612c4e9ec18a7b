"""Cells around a network: with a loss, for evaluation, and for one step of training."""

from __future__ import annotations

from typing import Any

from mpiparallel.context.settings import current_configuration
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell, ParameterTuple
from mpiparallel.nn.optimizer.optimizer import Optimizer
from mpiparallel.ops.gradient import value_and_grad
from mpiparallel.parallel.configuration import ParallelMode


class WithLossCell(Cell):
    """``loss_fn(backbone(data), label)``. The names of parameters stay as they are."""

    def __init__(self, backbone: Cell, loss_fn: Cell) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone
        self._loss_fn = loss_fn

    @property
    def backbone_network(self) -> Cell:
        """The network without the loss."""
        return self._backbone

    def construct(self, data: Tensor, label: Tensor) -> Tensor:
        """Return the loss."""
        loss: Tensor = self._loss_fn(self._backbone(data), label)
        return loss


class WithEvalCell(Cell):
    """Loss, outputs and label of a network, as metrics need them."""

    def __init__(self, network: Cell, loss_fn: Cell) -> None:
        super().__init__(auto_prefix=False)
        self._network = network
        self._loss_fn = loss_fn

    def construct(self, data: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss, the outputs of the network, and the label."""
        outputs = self._network(data)
        return self._loss_fn(outputs, label), outputs, label


class TrainOneStepCell(Cell):
    """One step of training: loss and gradients of ``network`` and the update of ``optimizer``, in one program.

    It returns the loss, as ``network`` does. The gradients are those of ``sens`` times the loss, which an optimizer
    with ``loss_scale=sens`` takes back. Called directly, dropout takes its masks from the optimizer's count of steps,
    so that training goes on the same after a restart.
    """

    def __init__(self, network: Cell, optimizer: Optimizer, sens: float = 1.0) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.optimizer = optimizer
        self.sens = sens

    @property
    def weights(self) -> ParameterTuple:
        """The parameters that are trained."""
        return self.optimizer.parameters

    def __call__(self, *inputs: Any) -> Any:
        """Train on one batch and return the loss."""
        self.program.step = self.optimizer.step
        return super().__call__(*inputs)

    def construct(self, *inputs: Any) -> Tensor:
        """Return the loss from before the update."""
        (_, loss), gradients = value_and_grad(self._scaled_loss, None, list(self.weights), has_aux=True)(*inputs)
        self.optimizer(self._averaged(gradients))
        result: Tensor = loss
        return result

    def _averaged(self, gradients: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the mean of the ranks' gradients where ``gradients_mean`` asks for it, else their sum."""
        configuration = current_configuration()
        if not configuration.gradients_mean or configuration.mode not in ParallelMode.OWN_BATCH:
            return gradients
        share = 1.0 / configuration.device_num
        pairs = zip(gradients, self.weights, strict=True)
        return tuple(one if weight.layerwise_parallel else one * share for one, weight in pairs)

    def _scaled_loss(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        loss: Tensor = self.network(*inputs)
        return (loss if self.sens == 1.0 else loss * self.sens), loss
