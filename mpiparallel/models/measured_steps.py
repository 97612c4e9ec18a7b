"""Training steps whose kernels tell what a machine takes for those of other networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import nn, ops
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.tensor import Tensor
from mpiparallel.models.resnet import ResNet
from mpiparallel.parallel.configuration import ParallelConfiguration

_WIDTHS = ((24, 96, 48, 320), (48, 40, 224, 96))
"""Channels of the stages: few and many, that grow and shrink, so that what convolutions take can be told apart."""
_IMAGES = (12, 5)
_SIDES = (48, 72)
_ROWS, _EXTENTS = (320, 112), (96, 288)
"""Of blocks of perceptrons: their larger weights, with what Adam keeps of them, are in no core's own cache."""


def measured_steps() -> list[Graph]:
    """Return the graphs of steps of one rank: on a few images by momentum, and on rows of numbers by Adam."""
    images = [_image_step(*given) for given in zip(_WIDTHS, _IMAGES, _SIDES, strict=True)]
    return images + [_row_step(*given) for given in zip(_ROWS, _EXTENTS, strict=True)]


class _Perceptron(nn.Cell):
    """What a layer of a Transformer does beside attention, and the mean of that."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((width,))
        self.wide, self.narrow = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)
        self.gelu, self.mean = ops.GeLU(), ops.ReduceMean()

    def construct(self, x: Any) -> Any:
        return self.mean(self.norm(self.narrow(self.gelu(self.wide(x)))))


def _row_step(rows: int, width: int) -> Graph:
    network = _Perceptron(width)
    step = nn.TrainOneStepCell(network, nn.Adam(network.trainable_params(), 1e-3)).set_train()
    x = Tensor(np.broadcast_to(np.float32(0), (rows, width)))
    return local_graph(step.sharded_graph(x, configuration=ParallelConfiguration(device_num=1)), 0)


def _image_step(widths: tuple[int, ...], count: int, side: int) -> Graph:
    network = nn.WithLossCell(ResNet((1, 1, 1, 1), 10, widths=widths), nn.SoftmaxCrossEntropyWithLogits(sparse=True))
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 1e-3, 0.9)).set_train()
    images = Tensor(np.broadcast_to(np.float32(0), (count, 3, side, side)))
    labels = Tensor(np.broadcast_to(np.int32(0), (count,)))
    return local_graph(step.sharded_graph(images, labels, configuration=ParallelConfiguration(device_num=1)), 0)
