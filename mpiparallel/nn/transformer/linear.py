"""The fully connected layer of transformers, with its weight either way round."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.graph.operator import Strategy
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.activation import get_activation
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.dense import initial_tensor


class Linear(Cell):
    """``activation(x @ weight + bias)`` of rows ``x`` (n, in_channels).

    ``weight`` has shape (out_channels, in_channels) with ``transpose_b``, else (in_channels, out_channels), as
    MindSpore stores those of a transformer.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        activation: str | None = None,
        transpose_b: bool = True,
        param_init_type: Any = np.float32,
    ) -> None:
        super().__init__()
        shape = (out_channels, in_channels) if transpose_b else (in_channels, out_channels)
        self.weight = Parameter(initial_tensor("weight", "normal", shape, param_init_type), "weight")
        self.bias = Parameter(initial_tensor("bias", "zeros", (out_channels,), param_init_type), "bias")
        self.matmul = ops.MatMul(transpose_b=transpose_b)
        self.bias_add = ops.Add()
        self.act_name = activation
        self.activation = None if activation is None else get_activation(activation)

    def construct(self, x: Tensor) -> Tensor:
        """Return rows (n, out_channels)."""
        y: Tensor = self.bias_add(self.matmul(x, self.weight), self.bias)
        return y if self.activation is None else self.activation(y)

    def shard(self, matmul: Strategy, bias: Strategy, activation: Strategy | None = None) -> Linear:  # type: ignore[override] # MindSpore has other arguments here
        """Cut the product, the addition of the bias and the activation; returns the layer."""
        self.matmul.shard(matmul)
        self.bias_add.shard(bias)
        if self.act_name is not None and activation is not None:
            getattr(self.activation, self.act_name.lower()).shard(activation)
        return self
