"""The convolutional layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.dense import initial_tensor

Size = int | tuple[int, int]


class Conv2d(Cell):
    """The cross-correlation of images (n, in_channels, h, w) with ``weight``, plus ``bias`` for each output channel.

    The operators are ``conv2d`` and ``bias_add``. ``cell.conv2d.shard(((2, 1, 1, 1), (4, 1, 1, 1)))`` cuts images 2
    ways and output channels 4 ways. ``cell.bias_add.shard(((2, 4, 1, 1), (4,)))`` fits to it.
    ``((1, 1, 2, 2), (1, 1, 1, 1))`` cuts height and width.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of the images, and of the output.
    kernel_size, stride, dilation : int or tuple of int
        Height and width of a window, from one to the next, and from pixel to pixel in it.
    pad_mode : {"same", "valid", "pad"}
        Whether there is ``ceil(h / stride)`` by ``ceil(w / stride)`` output, or windows lie within the image, or
        ``padding`` counts.
    padding : int or tuple of int
        Zeros at the top, bottom, left and right, in pixels.
    group : int
        Channels are taken in as many groups, each on its own.
    has_bias : bool
        Whether a bias is added.
    weight_init, bias_init : str, Initializer or Tensor
        First values of ``weight`` (out_channels, in_channels / group, height, width) and ``bias`` (out_channels,).
    data_format : str
        "NCHW".
    dtype : dtype
        Of the parameters.

    Raises
    ------
    ConfigurationError
        For options that do not fit together.

    Examples
    --------
    >>> Conv2d(3, 5, 3, stride=2)(Tensor(np.ones((2, 3, 7, 8), np.float32))).shape
    (2, 5, 4, 4)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        pad_mode: str = "same",
        padding: int | tuple[int, int, int, int] = 0,
        dilation: Size = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Any = "normal",
        bias_init: Any = "zeros",
        data_format: str = "NCHW",
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        if in_channels < 1 or in_channels % group:
            raise ConfigurationError(f"Conv2d: in_channels={in_channels} does not divide into group={group} parts")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.conv2d = ops.Conv2D(
            out_channels, kernel_size, 1, pad_mode, padding, stride, dilation, group, data_format=data_format
        )
        shape = (out_channels, in_channels // group, *self.conv2d.window.kernel)
        self.weight = Parameter(initial_tensor("weight", weight_init, shape, dtype), "weight")
        self.has_bias = has_bias
        if has_bias:
            self.bias = Parameter(initial_tensor("bias", bias_init, (out_channels,), dtype), "bias")
            self.bias_add = ops.BiasAdd()
        else:
            no_effect("Conv2d", "bias_init", bias_init, "has_bias is False", default="zeros")

    def construct(self, x: Tensor) -> Tensor:
        """Return images (n, out_channels, height, width)."""
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ShapeError(f"Conv2d: x has shape {x.shape}; it must be (images, {self.in_channels}, height, width)")
        y: Tensor = self.conv2d(x, self.weight)
        if self.has_bias:
            y = self.bias_add(y, self.bias)
        return y
