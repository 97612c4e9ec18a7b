"""A network that trains itself, as the cell that ``Model`` trains with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.optimizer.optimizer import Optimizer
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.remark import remark


class NoUpdate(Optimizer):
    """An optimizer that leaves its parameters as they are."""

    def construct(self, gradients: Sequence[Tensor]) -> None:
        """Do nothing."""


class OwnTraining(TrainOneStepCell):
    """Runs a network whose ``construct`` returns the loss, and makes the update itself, if there is one.

    The optimizer is the one inside the network. Raises ConfigurationError for more than one step of accumulation, and
    where the network has neither an optimizer nor a parameter that could be trained.
    """

    def __init__(self, network: Cell, accumulation_steps: int = 1) -> None:
        if accumulation_steps != 1:
            raise ConfigurationError(
                f"Model: grad_accumulation_step {accumulation_steps} needs an optimizer; give Model(network, loss_fn, "
                "optimizer), or add up gradients in the network, with boost.GradientAccumulation"
            )
        found = [cell for _, cell in network.cells_and_names() if isinstance(cell, Optimizer)]
        if not found:
            trained = network.trainable_params()
            if not trained:
                raise ConfigurationError(
                    "Model: training needs an optimizer; give Model(network, loss_fn, optimizer): the network has "
                    "neither one nor parameters"
                )
            remark("Model.train: neither Model nor the network has an optimizer, so nothing is updated")
            found = [NoUpdate(0.0, trained)]
        super().__init__(network, found[0])

    def construct(self, *inputs: Any) -> Any:
        """Return what the network returns."""
        return self.network(*inputs)
