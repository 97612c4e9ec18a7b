"""Training steps whose kernels tell what a machine takes for those of other networks."""

from __future__ import annotations

import numpy as np

from mpiparallel import nn
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.tensor import Tensor
from mpiparallel.models.resnet import ResNet
from mpiparallel.parallel.configuration import ParallelConfiguration

_WIDTHS = ((24, 96, 48, 320), (48, 40, 224, 96))
"""Channels of the stages: few and many, that grow and shrink, so that what convolutions take can be told apart."""
_IMAGES = (12, 5)
_SIDES = (48, 72)


def measured_steps() -> list[Graph]:
    """Return the graphs of steps of one rank on a few images."""
    return [_step(*given) for given in zip(_WIDTHS, _IMAGES, _SIDES, strict=True)]


def _step(widths: tuple[int, ...], count: int, side: int) -> Graph:
    network = nn.WithLossCell(ResNet((1, 1, 1, 1), 10, widths=widths), nn.SoftmaxCrossEntropyWithLogits(sparse=True))
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 1e-3, 0.9)).set_train()
    images = Tensor(np.broadcast_to(np.float32(0), (count, 3, side, side)))
    labels = Tensor(np.broadcast_to(np.int32(0), (count,)))
    return local_graph(step.sharded_graph(images, labels, configuration=ParallelConfiguration(device_num=1)), 0)
