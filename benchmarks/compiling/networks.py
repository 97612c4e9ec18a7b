"""Networks that grow in one way each: in layers, in branches, in small parameters, in bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import Model, Parameter, ParameterTuple, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.transformer import TransformerEncoder, TransformerOpParallelConfig

Batch = list[np.ndarray[Any, Any]]

SMALL = 64
WIDTH, LENGTH, HEADS = 4096, 8, 64


class Encoder(nn.Cell):
    """Layers of a Transformer, as wide as any cut of these cases needs; its weights are made when they are placed."""

    def __init__(self, layers: int, rows: int, cuts: TransformerOpParallelConfig) -> None:
        super().__init__()
        self.encoder = TransformerEncoder(
            batch_size=rows,
            num_layers=layers,
            hidden_size=WIDTH,
            ffn_hidden_size=4 * WIDTH,
            seq_length=LENGTH,
            num_heads=HEADS,
            parallel_config=cuts,
        )

    def construct(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(x, mask)[0].mean()


def encoder(layers: int, data_parallel: int, model_parallel: int) -> tuple[Model, Batch]:
    """Return the training of a Transformer, and a batch of zeros that take up no memory."""
    cuts = TransformerOpParallelConfig(data_parallel=data_parallel, model_parallel=model_parallel)
    network = Encoder(layers, data_parallel, cuts)
    shapes = (data_parallel, LENGTH, WIDTH), (data_parallel, LENGTH, LENGTH)
    batch = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
    return Model(network, optimizer=nn.AdamWeightDecay(network.trainable_params())), batch


class Branches(nn.Cell):
    """The sum of as many dense layers of one input."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.branches = nn.CellList([nn.Dense(SMALL, SMALL, activation="relu") for _ in range(count)])

    def construct(self, x: Tensor) -> Tensor:
        total = x
        for branch in self.branches:
            total = total + branch(x)
        return total


class Additions(nn.Cell):
    """Its input with as many vectors of ``SMALL`` elements added one after the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        rows = np.linspace(-0.01, 0.01, count * SMALL, dtype=np.float32).reshape(count, SMALL)
        self.rows = ParameterTuple([Parameter(row, f"row{index}") for index, row in enumerate(rows)])

    def construct(self, x: Tensor) -> Tensor:
        for row in self.rows:
            x = x + row
        return x


def wide(layers: int, width: int) -> nn.Cell:
    """Return a network of few large matrices."""
    return nn.SequentialCell(*(nn.Dense(width, width, has_bias=False) for _ in range(layers)))


def trained(network: nn.Cell, width: int, rows: int = 16) -> tuple[Model, NumpySlicesDataset]:
    """Return the training of a network of vectors by Adam, and the data of two steps."""
    columns = tuple(np.full((rows, width), value, np.float32) for value in (0.5, 1.0))
    data = NumpySlicesDataset(columns, ["x", "y"], shuffle=False).batch(rows // 2)
    return Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), 1e-3)), data
