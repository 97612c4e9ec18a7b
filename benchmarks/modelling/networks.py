"""The networks that the cost model is held against: layers that are cut one by one, trained by Adam or momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from modelling.plans import Cut, Plan

from mpiparallel import nn, ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.models.resnet import Residual, resnet18
from mpiparallel.nn.transformer import OpParallelConfig, TransformerEncoderLayer

Arrays = list[np.ndarray[Any, Any]]


class Layers(nn.Cell):
    """Layers one after the other, and the mean of what the last one gives."""

    def __init__(self, layers: Sequence[nn.Cell]) -> None:
        super().__init__()
        self.layers = nn.CellList(list(layers))
        self.mean = ops.ReduceMean()

    def construct(self, x: Tensor, *others: Tensor) -> Tensor:
        """Return one number; all layers are given ``others`` too."""
        for layer in self.layers:
            found = layer(x, *others)
            x = found[0] if isinstance(found, tuple) else found
        mean: Tensor = self.mean(x * x)
        return mean


def mlp(plan: Plan) -> tuple[nn.Cell, Arrays]:
    """Return dense layers with relu, and a batch; a cut is (rows, what is summed, columns)."""
    width = plan.sizes["width"]
    layers = [nn.Dense(width, width, activation="relu") for _ in range(plan.sizes["layers"])]
    for layer, (rows, summed, columns) in zip(layers, plan.cuts, strict=True):
        layer.matmul.shard(((rows, summed), (columns, summed)))
        layer.bias_add.shard(((rows, columns), (columns,)))
    return Layers(layers), [np.full((plan.sizes["rows"], width), 0.5, np.float32)]


def transformer(plan: Plan) -> tuple[nn.Cell, Arrays]:
    """Return layers of an encoder, and a batch with its mask; a cut is (samples, 1, heads and columns)."""
    sizes = plan.sizes
    layers = [
        TransformerEncoderLayer(
            *(sizes["rows"], sizes["width"], 4 * sizes["width"], sizes["heads"], sizes["length"]),
            attention_dropout_rate=0.0,
            hidden_dropout_rate=0.0,
            parallel_config=OpParallelConfig(data_parallel=rows, model_parallel=columns),
        )
        for rows, _, columns in plan.cuts
    ]
    shapes = (sizes["rows"], sizes["length"], sizes["width"]), (sizes["rows"], sizes["length"], sizes["length"])
    return Layers(layers), [np.full(shape, value, np.float32) for shape, value in zip(shapes, (0.5, 1), strict=True)]


def resnet(plan: Plan) -> tuple[nn.Cell, Arrays]:
    """Return ResNet-18 with its loss, and a batch; a cut, of all convolutions of a stage, is (images, in, out)."""
    network = resnet18(10)
    stages = [[network.stem], *(list(network.stages)[place : place + 2] for place in range(0, 8, 2))]
    for cells, cut in zip(stages, plan.cuts, strict=True):
        for cell in cells:
            _cut_convolutions(cell, cut)
    size = plan.sizes["size"]
    images = np.random.default_rng(1).standard_normal((plan.sizes["rows"], 3, size, size), np.float32)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return nn.WithLossCell(network, loss), [images, np.arange(len(images), dtype=np.int32) % 10]


def _cut_convolutions(cell: nn.Cell, cut: Cut) -> None:
    images, inputs, outputs = cut
    for one in (one for _, one in cell.cells_and_names() if isinstance(one, nn.Conv2d)):
        # Three channels of an image stay together.
        inside = inputs if one.in_channels % inputs == 0 else 1
        one.conv2d.shard(((images, inside, 1, 1), (outputs, inside, 1, 1)))


NETWORKS = {"MLP": mlp, "Transformer": transformer, "ResNet-18": resnet}


def training(plan: Plan) -> tuple[nn.TrainOneStepCell, Arrays]:
    """Return the training step of a plan's network, and the batch of all ranks."""
    network, batch = NETWORKS[plan.network](plan)
    blocks = _blocks(network)
    for place, block in enumerate(blocks):
        if plan.recompute:
            block.recompute()
        if plan.stages > 1:
            block.pipeline_stage = place * plan.stages // len(blocks)
    weights = network.trainable_params()
    optimizer = nn.Momentum(weights, 1e-3, 0.9) if plan.network == "ResNet-18" else nn.Adam(weights, 1e-4)
    trained = nn.PipelineCell(network, plan.micro_batches) if plan.stages > 1 else network
    return nn.TrainOneStepCell(trained, optimizer).set_train(), batch


def _blocks(network: nn.Cell) -> list[nn.Cell]:
    if isinstance(network, Layers):
        return list(network.layers)
    return [cell for _, cell in network.cells_and_names() if isinstance(cell, Residual)]
