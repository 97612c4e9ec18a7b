"""The two linear layers of a transformer block."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.dropout import Dropout
from mpiparallel.nn.transformer.arguments import checked
from mpiparallel.nn.transformer.linear import Linear
from mpiparallel.nn.transformer.op_parallel_config import DpMpConfig, OpParallelConfig


class FeedForward(Cell):
    """``dropout(activation(x @ mapping) @ projection)``, with biases.

    The rows of ``x`` are cut by data_parallel, the columns of ``mapping`` and the rows of ``projection`` by
    model_parallel. So one AllReduce is needed forward and one backward.

    Parameters
    ----------
    hidden_size : int
        Elements of the vector of a position.
    ffn_hidden_size : int
        Elements between the two layers of the feed-forward network.
    dropout_rate : float
        Probability, at least 0 and below 1.
    hidden_act : str
        A name for ``get_activation``.
    param_init_type : dtype
        Of the parameters.
    parallel_config : OpParallelConfig, optional
        The cuts; by default there is none.

    Examples
    --------
    >>> FeedForward(8, 16, 0.1)(Tensor(np.ones((2, 3, 8), np.float32))).shape
    (2, 3, 8)
    """

    @checked
    def __init__(
        self,
        hidden_size: int,
        ffn_hidden_size: int,
        dropout_rate: float,
        hidden_act: str = "gelu",
        param_init_type: Any = np.float32,
        parallel_config: DpMpConfig | None = None,
    ) -> None:
        super().__init__()
        config = parallel_config or OpParallelConfig()
        dp, mp = config.data_parallel, config.model_parallel
        self.mapping = Linear(hidden_size, ffn_hidden_size, hidden_act, False, param_init_type)
        self.mapping.shard(((dp, 1), (1, mp)), ((dp, mp), (mp,)), ((dp, mp),))
        self.projection = Linear(ffn_hidden_size, hidden_size, None, False, param_init_type)
        self.projection.shard(((dp, mp), (mp, 1)), ((dp, 1), (1,)))
        self.projection.bias.parallel_optimizer = False
        self.dropout = Dropout(p=dropout_rate)
        self.dropout.dropout.shard(((dp, 1),))

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``, (batch, length, hidden) or (batch * length, hidden)."""
        rows = x if x.ndim == 2 else x.reshape((-1, x.shape[-1]))
        y: Tensor = self.dropout(self.projection(self.mapping(rows)))
        return y if x.ndim == 2 else y.reshape(x.shape)
