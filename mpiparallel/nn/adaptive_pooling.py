"""Pooling of images to a given height and width, as a layer."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell


class AdaptiveAvgPool2d(Cell):
    """Images (n, c, h, w) averaged to ``output_size``: a number, or (height, width) where None keeps the extent.

    With 1 it is global pooling. The operator is ``adaptive_avg_pool``; its strategy leaves height and width whole,
    ``((2, 4, 1, 1),)``.

    Parameters
    ----------
    output_size : int or tuple of int
        Of images, in pixels.

    Examples
    --------
    >>> AdaptiveAvgPool2d(1)(Tensor([[[[1.0, 3.0]]]])).asnumpy().tolist()
    [[[[2.0]]]]
    """

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.adaptive_avg_pool = ops.AdaptiveAvgPool2D(output_size)

    def construct(self, x: Tensor) -> Tensor:
        """Return images of as many channels."""
        pooled: Tensor = self.adaptive_avg_pool(x)
        return pooled
