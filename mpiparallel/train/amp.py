"""Mixed precision: parts of a network compute in floats of 16 bits; the step that trains it (MindSpore's ``amp``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.context.settings import get_context
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.optimizer.optimizer import Optimizer
from mpiparallel.nn.wrap.loss_cell import WithLossCell
from mpiparallel.nn.wrap.loss_scale import TrainOneStepWithLossScaleCell
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.train.loss_scale_manager import DynamicLossScaleManager, LossScaleManager
from mpiparallel.train.mixed_precision import auto_mixed_precision as auto_mixed_precision
from mpiparallel.train.mixed_precision import checked_level
from mpiparallel.train.mixed_precision import custom_mixed_precision as custom_mixed_precision
from mpiparallel.train.mixed_precision import get_black_list as get_black_list
from mpiparallel.train.mixed_precision import get_white_list as get_white_list


def level_here(level: str) -> str:
    """Return the level that "auto" stands for on this device, O2 on a GPU and O0 on a CPU, or the level itself.

    Raises ConfigurationError for an unknown level.
    """
    if checked_level(level) == "auto":
        return "O2" if get_context("device_target") == "GPU" else "O0"
    return level


def build_train_network(
    network: Cell,
    optimizer: Optimizer,
    loss_fn: Cell | None = None,
    level: str = "O0",
    boost_level: str = "O0",
    loss_scale_manager: LossScaleManager | None = None,
    keep_batchnorm_fp32: bool | None = None,
    accumulation_steps: int = 1,
) -> TrainOneStepCell:
    """Return the cell that trains ``network``, in the precision of ``level``, on the loss of ``loss_fn`` in float32.

    Parameters
    ----------
    network : Cell
        It returns the loss where there is no ``loss_fn``.
    optimizer : Optimizer
        Of its parameters.
    loss_fn : Cell, optional
        It takes the outputs and the label.
    level, keep_batchnorm_fp32
        As for ``auto_mixed_precision``, but "auto" is O2 on a GPU and O0 on a CPU (MindSpore's rule).
    boost_level : str
        "O0".
    loss_scale_manager : LossScaleManager, optional
        Without one the loss is scaled for "O2" only, dynamically (MindSpore's rule).
    accumulation_steps : int
        As of ``TrainOneStepCell``.

    Returns
    -------
    TrainOneStepCell
        Called on a batch it returns the loss.

    Raises
    ------
    ConfigurationError
        For an unknown level, and for an optimizer whose ``loss_scale`` does not fit the manager.

    Examples
    --------
    >>> from mpiparallel import Tensor, nn
    >>> network = nn.Dense(1, 1, weight_init="zeros")
    >>> step = build_train_network(network, nn.SGD(network.trainable_params(), 0.25), nn.MSELoss())
    >>> float(step(Tensor([[1.0]]), Tensor([[2.0]])))
    4.0
    """
    if boost_level != "O0":
        raise ConfigurationError(f"boost_level {boost_level!r} is not implemented; use 'O0'")
    level = level_here(level)
    network = auto_mixed_precision(network, level, keep_batchnorm_fp32=keep_batchnorm_fp32)
    if loss_fn is not None:
        if level != "O0":
            loss_fn.to_float(np.float32)
        network = WithLossCell(network, loss_fn)
    if loss_scale_manager is None and level == "O2":
        loss_scale_manager = DynamicLossScaleManager()
    if loss_scale_manager is None:
        return TrainOneStepCell(network, optimizer, accumulation_steps=accumulation_steps)
    update = loss_scale_manager.get_update_cell()
    if update is not None:
        return TrainOneStepWithLossScaleCell(network, optimizer, update, accumulation_steps)
    scale = loss_scale_manager.get_loss_scale()
    _check_taken_back(optimizer, scale)
    return TrainOneStepCell(network, optimizer, scale, accumulation_steps=accumulation_steps)


def _check_taken_back(optimizer: Any, scale: float) -> None:
    if optimizer.loss_scale != scale:
        raise ConfigurationError(
            f"the loss is multiplied by {scale} and overflow not looked for, but {type(optimizer).__name__} divides "
            f"gradients by loss_scale={optimizer.loss_scale}; give it loss_scale={scale}, or drop_overflow_update=True"
        )
