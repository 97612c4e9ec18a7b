"""Pooling layers, and the one that makes images rows."""

from __future__ import annotations

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell

Size = int | tuple[int, int]


class MaxPool2d(Cell):
    """The largest element of each window of images (n, c, h, w).

    The operator is ``max_pool``; ``cell.max_pool.shard(((2, 4, 2, 1),))`` cuts images, channels and height.
    """

    def __init__(
        self, kernel_size: Size = 1, stride: Size = 1, pad_mode: str = "valid", data_format: str = "NCHW"
    ) -> None:
        super().__init__()
        self.max_pool = ops.MaxPool(kernel_size, stride, pad_mode, data_format)

    def construct(self, x: Tensor) -> Tensor:
        """Return images of as many channels."""
        pooled: Tensor = self.max_pool(x)
        return pooled


class AvgPool2d(Cell):
    """The mean of each window of images (n, c, h, w), over the elements in it that are not padding.

    The operator is ``avg_pool``; ``cell.avg_pool.shard(((2, 4, 2, 1),))`` cuts images, channels and height.
    """

    def __init__(
        self, kernel_size: Size = 1, stride: Size = 1, pad_mode: str = "valid", data_format: str = "NCHW"
    ) -> None:
        super().__init__()
        self.avg_pool = ops.AvgPool(kernel_size, stride, pad_mode, data_format)

    def construct(self, x: Tensor) -> Tensor:
        """Return images of as many channels."""
        pooled: Tensor = self.avg_pool(x)
        return pooled


class Flatten(Cell):
    """The tensor (n, ...) as n rows."""

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of two dims."""
        return x.reshape((x.shape[0], x.size // max(x.shape[0], 1)))
