"""A network with its loss, for training and for evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.dtype import is_floating
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.wrap.pipeline_cell import PipelineCell


class WithLossCell(Cell):
    """``loss_fn(backbone(data), label)``. The names of parameters stay as they are.

    Parameters
    ----------
    backbone : Cell
        The network.
    loss_fn : Cell
        It takes the outputs and the label.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> float(WithLossCell(nn.ReLU(), nn.MSELoss())(Tensor([-1.0]), Tensor([2.0])))
    4.0
    """

    def __init__(self, backbone: Cell, loss_fn: Cell) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone
        self._loss_fn = loss_fn

    @property
    def backbone_network(self) -> Cell:
        """The network without the loss."""
        return self._backbone

    def construct(self, data: Tensor, label: Tensor) -> Tensor:
        """Return the loss; that of micro-batches, where the backbone takes a batch in such."""
        loss: Tensor
        if isinstance(self._backbone, PipelineCell):
            loss = self._backbone.split(self._loss, data, label)
        else:
            loss = self._loss(data, label)
        return loss

    def _loss(self, data: Tensor, label: Tensor) -> Any:
        return self._loss_fn(self._backbone(data), label)


class WithEvalCell(Cell):
    """Loss, outputs and label of a network, as metrics need them.

    Parameters
    ----------
    network : Cell
        The network.
    loss_fn : Cell
        It takes the outputs and the label.
    add_cast_fp32 : bool
        Whether floats are cast to float32.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> [one.tolist() for one in WithEvalCell(nn.ReLU(), nn.MSELoss())(Tensor([-1.0]), Tensor([2.0]))]
    [4.0, [0.0], [2.0]]
    """

    def __init__(self, network: Cell, loss_fn: Cell, add_cast_fp32: bool = False) -> None:
        super().__init__(auto_prefix=False)
        self.add_cast_fp32 = add_cast_fp32
        self._network = network
        self._loss_fn = loss_fn

    def construct(self, data: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss, the outputs of the network, and the label."""
        outputs = self._network(data)
        if self.add_cast_fp32:
            outputs, label = _as_float32(outputs), _as_float32(label)
        return self._loss_fn(outputs, label), outputs, label


def _as_float32(x: Tensor) -> Tensor:
    return x.astype(np.float32) if is_floating(x.spec.dtype) else x
