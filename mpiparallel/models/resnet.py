"""Residual networks for images (He and others, 2016), as the parallel training tutorial trains them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpiparallel.nn as nn
import mpiparallel.ops as ops
from mpiparallel.dtype import float32
from mpiparallel.graph.tensor import Tensor


def _convolution(inputs: int, outputs: int, size: int, stride: int, dtype: Any) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, pad_mode="same", weight_init="he_normal", dtype=dtype)


class Residual(nn.Cell):
    """A block: convolutions with batch norm, added to its input, or to a projection of it where the shapes differ.

    ``steps`` are (channels, kernel size, stride) of the convolutions; ``last_gamma`` is the first value of the last
    batch norm's scale.
    """

    def __init__(
        self, inputs: int, steps: Sequence[tuple[int, int, int]], dtype: Any = float32, last_gamma: Any = "ones"
    ) -> None:
        super().__init__()
        layers: list[nn.Cell] = []
        channels, stride = inputs, 1
        for index, (outputs, size, step) in enumerate(steps):
            gamma = "ones" if index < len(steps) - 1 else last_gamma
            norm = nn.BatchNorm2d(outputs, gamma_init=gamma, dtype=dtype)
            layers += [_convolution(channels, outputs, size, step, dtype), norm]
            if index < len(steps) - 1:
                layers.append(nn.ReLU())
            channels, stride = outputs, stride * step
        self.body = nn.SequentialCell(layers)
        self.relu = nn.ReLU()
        self.add = ops.Add()
        self.projection: nn.Cell | None = None
        if stride != 1 or channels != inputs:
            shortcut = _convolution(inputs, channels, 1, stride, dtype)
            self.projection = nn.SequentialCell([shortcut, nn.BatchNorm2d(channels, dtype=dtype)])

    def construct(self, x: Tensor) -> Tensor:
        kept = x if self.projection is None else self.projection(x)
        result: Tensor = self.relu(self.add(self.body(x), kept))
        return result


class ResNet(nn.Cell):
    """Images (batch, 3, height, width) to logits (batch, classes): a stem, stages of blocks, a mean, a dense layer.

    ``widths`` are the channels of the stages. ``expansion`` 1 makes blocks of two 3x3 convolutions. Above 1 it makes
    bottlenecks whose output has as many times more channels. With ``last_gamma`` "zeros" each block begins as the
    identity, with which a deep network trains faster (Goyal and others, "Accurate, Large Minibatch SGD", 2017).
    """

    def __init__(
        self,
        blocks: Sequence[int],
        num_classes: int = 10,
        expansion: int = 1,
        widths: Sequence[int] = (64, 128, 256, 512),
        dtype: Any = float32,
        last_gamma: Any = "ones",
    ) -> None:
        super().__init__()
        self.stem = nn.SequentialCell(
            [_convolution(3, widths[0], 7, 2, dtype), nn.BatchNorm2d(widths[0], dtype=dtype), nn.ReLU()]
        )
        self.pool = nn.MaxPool2d(3, 2, pad_mode="same")
        stages: list[nn.Cell] = []
        channels = widths[0]
        for stage, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(Residual(channels, _steps(width, stride, expansion), dtype, last_gamma))
                channels = width * expansion
        self.stages = nn.SequentialCell(stages)
        self.mean = ops.ReduceMean()
        self.dense = nn.Dense(channels, num_classes, weight_init="xavier_uniform", dtype=dtype)

    def construct(self, x: Tensor) -> Tensor:
        features = self.stages(self.pool(self.stem(x)))
        logits: Tensor = self.dense(self.mean(features, (2, 3)))
        return logits


def _steps(width: int, stride: int, expansion: int) -> list[tuple[int, int, int]]:
    if expansion == 1:
        return [(width, 3, stride), (width, 3, 1)]
    return [(width, 1, 1), (width, 3, stride), (width * expansion, 1, 1)]


def resnet18(num_classes: int = 10, dtype: Any = float32, last_gamma: Any = "zeros") -> ResNet:
    """Return ResNet-18, whose blocks begin as the identity unless ``last_gamma`` is "ones"."""
    return ResNet((2, 2, 2, 2), num_classes, dtype=dtype, last_gamma=last_gamma)


def resnet50(
    batch_size: int | None = None, num_classes: int = 10, dtype: Any = float32, last_gamma: Any = "zeros"
) -> ResNet:
    """Return ResNet-50, whose blocks begin as the identity unless ``last_gamma`` is "ones".

    ``batch_size`` is the tutorial's argument, and any batch will do. From "ones", on small images, the tutorial's
    learning rate drives the logits so far apart that its loss is no number.
    """
    return ResNet((3, 4, 6, 3), num_classes, expansion=4, dtype=dtype, last_gamma=last_gamma)
