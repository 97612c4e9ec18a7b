"""Training with a scaled loss, so that small gradients survive in float16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.optimizer.optimizer import Optimizer
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.ops.gradients.gradient import value_and_grad

_grad_scale = ops.MultitypeFuncGraph("grad_scale")
"""Divides a gradient by the scale of the loss; the name that MindSpore's users import."""


@_grad_scale.register("Tensor", "Tensor")
def _divided(scale: Tensor, gradient: Tensor) -> Tensor:
    factor: Tensor = ops.Cast()(ops.Reciprocal()(scale), gradient.dtype)
    return gradient * factor


class FixedLossScaleUpdateCell(Cell):
    """A scale of the loss that stays as it is.

    Parameters
    ----------
    loss_scale_value : float
        Above 0.

    Raises
    ------
    ConfigurationError
        For another value.

    Examples
    --------
    >>> FixedLossScaleUpdateCell(1024.0).get_loss_scale()
    1024.0
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__(auto_prefix=False)
        self.loss_scale_value = _checked(self, "loss_scale_value", loss_scale_value)

    def get_loss_scale(self) -> float:
        """Return the first scale."""
        return self.loss_scale_value

    def construct(self, loss_scale: Parameter, overflow: Tensor) -> Tensor:
        """Return ``overflow``."""
        return overflow


class DynamicLossScaleUpdateCell(FixedLossScaleUpdateCell):
    """A scale of the loss that an overflow divides, and that steps without one multiply.

    What it counts are the parameters "current_iterator_step" and "last_overflow_iterator_step".

    Parameters
    ----------
    loss_scale_value : float
        The first scale.
    scale_factor : int
        By which it is divided, to no less than 1, and multiplied.
    scale_window : int
        After how many steps without overflow it is multiplied.

    Raises
    ------
    ConfigurationError
        For values out of range.

    Examples
    --------
    >>> DynamicLossScaleUpdateCell(2.0**16, 2, 1000).get_loss_scale()
    65536.0
    """

    def __init__(self, loss_scale_value: float, scale_factor: int, scale_window: int) -> None:
        super().__init__(loss_scale_value)
        self.scale_factor = _checked(self, "scale_factor", scale_factor, above=1)
        self.scale_window = int(_checked(self, "scale_window", scale_window))
        self.minimum_loss_scale = 1.0
        self.cur_iter = Parameter(np.ones((), np.int32), "current_iterator_step", requires_grad=False)
        self.last_overflow_iter = Parameter(np.zeros((), np.int32), "last_overflow_iterator_step", requires_grad=False)

    def construct(self, loss_scale: Parameter, overflow: Tensor) -> Tensor:
        """Overwrite the scale as the verdict on a step asks for, and return the verdict, a 0-d bool."""
        lowered = ops.Maximum()(loss_scale / self.scale_factor, self.minimum_loss_scale)
        due = (self.cur_iter - self.last_overflow_iter) >= self.scale_window
        raised = ops.Select()(due, loss_scale * self.scale_factor, loss_scale * 1.0)
        since = ops.Select()(ops.LogicalOr()(overflow, due), self.cur_iter + 0, self.last_overflow_iter + 0)
        ops.Assign()(self.last_overflow_iter, since)
        ops.Assign()(self.cur_iter, self.cur_iter + 1)
        ops.Assign()(loss_scale, ops.Select()(overflow, lowered, raised))
        return overflow


def _checked(cell: Cell, name: str, value: Any, above: float = 0) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not above < float(value) < np.inf:
        raise ConfigurationError(f"{type(cell).__name__}: {name} {value!r} must be a number above {above}")
    return float(value)


class TrainOneStepWithLossScaleCell(TrainOneStepCell):
    """One step of training on a scaled loss; a step in which some rank's numbers overflow changes nothing on any rank.

    It returns the loss, whether the step overflowed (0-d bool), and the scale that it used. The gradients that the
    optimizer is given are those of the loss itself: its ``loss_scale`` stays 1.

    Parameters
    ----------
    network : Cell
        It returns the loss.
    optimizer : Optimizer
        Of the parameters of ``network``.
    scale_sense : Tensor or Cell
        The scale, which becomes the parameter "scale_sense"; or a cell that updates it: FixedLossScaleUpdateCell or
        DynamicLossScaleUpdateCell.
    accumulation_steps : int
        As of TrainOneStepCell.

    Raises
    ------
    ConfigurationError
        When ``scale_sense`` is neither.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> network = nn.WithLossCell(nn.Dense(1, 1, weight_init="zeros"), nn.MSELoss())
    >>> step = TrainOneStepWithLossScaleCell(network, nn.SGD(network.trainable_params(), 0.25), Tensor(8.0))
    >>> [one.item() for one in step(Tensor([[1.0]]), Tensor([[2.0]]))]
    [4.0, False, 8.0]
    """

    def __init__(self, network: Cell, optimizer: Optimizer, scale_sense: Any, accumulation_steps: int = 1) -> None:
        super().__init__(network, optimizer, accumulation_steps=accumulation_steps)
        if optimizer.loss_scale != 1.0:
            raise ConfigurationError(
                f"{type(self).__name__} takes the scale of the loss back itself; give {type(optimizer).__name__} "
                f"loss_scale=1.0, not {optimizer.loss_scale}"
            )
        if not isinstance(scale_sense, Cell):
            scale_sense = FixedLossScaleUpdateCell(_scale_value(scale_sense))
        self.loss_scaling_manager = scale_sense
        self.scale_sense = Parameter(np.asarray(scale_sense.get_loss_scale(), np.float32), "scale_sense", False)
        self.check_finite(skip=True)

    @property
    def seeks_scale(self) -> bool:
        """Whether an overflow of gradients is part of finding a scale of the loss: not at the lowest."""
        lowest = getattr(self.loss_scaling_manager, "minimum_loss_scale", np.inf)
        return bool(self.scale_sense.asnumpy() > lowest)

    def check_as_made(self) -> None:
        """Look no more but for overflow."""
        self.check_finite(skip=True)

    def set_sense_scale(self, sens: Any) -> None:
        """Set the scale of the loss."""
        self.scale_sense.set_data(np.asarray(_scale_value(sens), np.float32))

    def construct(self, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss from before the update, whether the step overflowed, and the scale of the loss."""
        used = self.scale_sense * 1.0
        (_, loss), gradients = value_and_grad(self._scaled_loss, None, list(self.weights), has_aux=True)(*inputs)
        self.descend(loss, gradients)
        return loss, self.overflow(), used

    def overflow(self) -> Tensor:
        """Return whether the last step overflowed, a 0-d bool."""
        found: Tensor = self.check_finite(skip=True).sound == 0
        return found

    def _scaled_loss(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        loss: Tensor = self.network(*inputs)
        return loss.astype(np.result_type(loss.dtype, np.float32)) * self.scale_sense, loss

    def _judged(self, loss: Tensor, gradients: Sequence[Tensor]) -> None:
        super()._judged(loss, gradients)
        self.loss_scaling_manager(self.scale_sense, self.overflow())

    def update(self, gradients: Sequence[Tensor]) -> None:
        """Update along the gradients divided by the scale."""
        inverse = 1.0 / self.scale_sense
        super().update([gradient * inverse.astype(gradient.dtype) for gradient in gradients])


def _scale_value(scale: Any) -> float:
    return float(scale.asnumpy().item()) if isinstance(scale, Tensor) else float(scale)
