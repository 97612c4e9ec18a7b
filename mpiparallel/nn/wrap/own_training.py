"""A network that trains itself, as the cell that ``Model`` trains with."""

from __future__ import annotations

from typing import Any

from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.optimizer.optimizer import Optimizer
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell


class OwnTraining(TrainOneStepCell):
    """Runs a network whose ``construct`` returns the loss, and makes the update itself.

    The optimizer is the one inside the network. Raises ConfigurationError where there is none, and for more than one
    step of accumulation.
    """

    def __init__(self, network: Cell, accumulation_steps: int = 1) -> None:
        if accumulation_steps != 1:
            raise ConfigurationError(
                f"Model: grad_accumulation_step {accumulation_steps} needs an optimizer; give Model(network, loss_fn, "
                "optimizer), or add up gradients in the network, with boost.GradientAccumulation"
            )
        found = [cell for _, cell in network.cells_and_names() if isinstance(cell, Optimizer)]
        if not found:
            raise ConfigurationError(
                "Model: training needs an optimizer; give Model(network, loss_fn, optimizer), or a network that has "
                "one and makes the update itself"
            )
        super().__init__(network, found[0])

    def construct(self, *inputs: Any) -> Any:
        """Return what the network returns."""
        return self.network(*inputs)
