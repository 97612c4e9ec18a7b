"""The fully connected layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.activation import get_activation
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.initializer import initializer


class Dense(Cell):
    """``activation(x @ weight.T + bias)`` along the last dim of ``x``.

    An ``x`` of shape (..., in_channels) is taken as rows, so that strategies speak of two dims.
    ``dense.matmul.shard(((2, 1), (4, 1)))`` cuts rows 2 ways and output channels 4 ways.
    ``dense.bias_add.shard(((2, 4), (4,)))`` fits to it.

    Parameters
    ----------
    in_channels, out_channels : int
        Extent of the last dim of ``x``, and of the output.
    weight_init, bias_init : str, Initializer or Tensor
        First values of ``weight``, of shape (out_channels, in_channels), and of ``bias``, of shape (out_channels,).
    has_bias : bool
        Whether a bias is added.
    activation : str or Cell, optional
        A name for ``get_activation``, or a cell.
    dtype : dtype
        Of weight and bias.

    Raises
    ------
    ConfigurationError
        When an initial tensor has another shape.

    Examples
    --------
    >>> Dense(3, 5)(Tensor(np.ones((2, 4, 3), np.float32))).shape
    (2, 4, 5)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Any = "normal",
        bias_init: Any = "zeros",
        has_bias: bool = True,
        activation: str | Cell | None = None,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.weight = Parameter(initial_tensor("weight", weight_init, (out_channels, in_channels), dtype), "weight")
        self.matmul = ops.MatMul(transpose_b=True)
        self.has_bias = has_bias
        if has_bias:
            self.bias = Parameter(initial_tensor("bias", bias_init, (out_channels,), dtype), "bias")
            self.bias_add = ops.BiasAdd()
        else:
            no_effect("Dense", "bias_init", bias_init, "has_bias is False", default="zeros")
        self.activation = get_activation(activation) if isinstance(activation, str) else activation

    def extend_repr(self) -> str:
        """Return the numbers of channels, and whether there is a bias."""
        return f"input_channels={self.in_channels}, output_channels={self.out_channels}, has_bias={self.has_bias}"

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of shape (..., out_channels)."""
        rows = x if x.ndim == 2 else x.reshape((-1, x.shape[-1]))
        y: Tensor = self.matmul(rows, self.weight)
        if self.has_bias:
            y = self.bias_add(y, self.bias)
        if self.activation is not None:
            y = self.activation(y)
        return y if x.ndim == 2 else y.reshape((*x.shape[:-1], self.out_channels))


def initial_tensor(name: str, init: Any, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Return the first values of a parameter; raise ConfigurationError when a given tensor has another shape."""
    tensor = init if isinstance(init, Tensor) else initializer(init, shape, dtype)
    if tensor.shape != shape:
        raise ConfigurationError(f"{name} is given first values of shape {tensor.shape}; give them shape {shape}")
    return tensor
