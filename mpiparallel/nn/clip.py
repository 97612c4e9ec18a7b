"""Clipping by norm as a cell."""

from __future__ import annotations

from typing import Any

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell


class ClipByNorm(Cell):
    """``x``, scaled down where its norm over the dims ``axis`` is above a bound; over all dims when ``axis`` is None.

    The norm is that of the whole tensor, wherever it is cut. The bound, a number or a 0-d tensor, must be above 0.

    Parameters
    ----------
    axis : int or tuple of int, optional
        The dims.

    Examples
    --------
    >>> ClipByNorm()(Tensor([3.0, 4.0]), Tensor(2.5)).asnumpy().tolist()
    [1.5, 2.0]
    """

    def __init__(self, axis: Any = None) -> None:
        super().__init__()
        self.axis = () if axis is None else axis

    def construct(self, x: Tensor, clip_norm: Any) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        norm = ops.Sqrt()(ops.ReduceSum(keep_dims=True)(ops.Square()(x), self.axis))
        clipped: Tensor = x * (clip_norm / ops.Maximum()(norm, clip_norm))
        return clipped
