"""Which positions of a sequence may look at which."""

from __future__ import annotations

import numpy as np

from mpiparallel import ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.transformer.arguments import checked
from mpiparallel.nn.transformer.op_parallel_config import DpMpConfig, OpParallelConfig


class AttentionMask(Cell):
    """From a mask of valid positions, (batch, seq_length), one of shape (batch, seq_length, seq_length).

    It is 1 where both positions are valid and the second is not after the first, 0 elsewhere.

    Parameters
    ----------
    seq_length : int
        Positions.
    parallel_config : OpParallelConfig, optional
        The cuts; by default there is none.

    Examples
    --------
    >>> AttentionMask(3)(Tensor([[1.0, 1.0, 0.0]])).asnumpy()[0].tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """

    @checked
    def __init__(self, seq_length: int, parallel_config: DpMpConfig | None = None) -> None:
        super().__init__()
        dp = (parallel_config or OpParallelConfig()).data_parallel
        self.seq_length = seq_length
        self.not_equal = ops.NotEqual().shard(((dp, 1), ()))
        self.mul = ops.Mul().shard(((dp, 1, 1), (dp, 1, 1)))
        self.multiply = ops.Mul().shard(((dp, 1, 1), (1, 1)))
        self.lower_triangle_mask = np.tril(np.ones((seq_length, seq_length)))

    def construct(self, input_mask: Tensor) -> Tensor:
        """Return the mask in the dtype of ``input_mask``."""
        batch, length = input_mask.shape
        valid = self.not_equal(input_mask, 0).astype(input_mask.dtype)
        both = self.mul(valid.reshape((batch, length, 1)), valid.reshape((batch, 1, length)))
        mask: Tensor = self.multiply(both, self.lower_triangle_mask.astype(input_mask.dtype))
        return mask
