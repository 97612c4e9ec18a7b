"""Attention of several heads, which model parallelism cuts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.dtype import common_dtype
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.activation import Softmax
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.dropout import Dropout
from mpiparallel.nn.transformer.arguments import checked, remark_on_extents
from mpiparallel.nn.transformer.linear import Linear
from mpiparallel.nn.transformer.op_parallel_config import DpMpConfig, OpParallelConfig

_MASKED = -10000.0
"""What is added to the score of a masked position (MindSpore's number)."""


class MultiHeadAttention(Cell):
    """``softmax(query @ key.T / sqrt(size_per_head)) @ value`` in each head, between linear layers.

    The batch is cut by data_parallel. Heads, the columns of the first layers (``dense1``, ``dense2``, ``dense3``) and
    the rows of the last (``projection``) are cut by model_parallel. The source is Shoeybi and others, "Megatron-LM",
    2019.

    Parameters
    ----------
    batch_size : int, optional
        Only compared with the inputs: a remark tells where they say otherwise.
    src_seq_length, tgt_seq_length : int
        Likewise.
    hidden_size : int
        Elements of the vector of a position.
    num_heads : int
        Heads of attention; it divides ``hidden_size``.
    hidden_dropout_rate, attention_dropout_rate : float
        Probabilities, at least 0 and below 1, of the output and of attention.
    softmax_compute_type : dtype
        In which softmax computes at least.
    param_init_type : dtype
        Of the parameters.
    parallel_config : OpParallelConfig, optional
        The cuts; by default there is none.

    Raises
    ------
    ConfigurationError
        When ``num_heads`` does not divide ``hidden_size``, and for a value that an argument cannot have.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel import Tensor
    >>> x, mask = Tensor(np.ones((2, 3, 8), np.float32)), Tensor(np.ones((2, 3, 3), np.float32))
    >>> MultiHeadAttention(2, 3, 3, 8, 2)(x, x, x, mask)[0].shape
    (2, 3, 8)
    """

    @checked
    def __init__(
        self,
        batch_size: int | None,
        src_seq_length: int,
        tgt_seq_length: int,
        hidden_size: int,
        num_heads: int,
        hidden_dropout_rate: float = 0.1,
        attention_dropout_rate: float = 0.1,
        softmax_compute_type: Any = np.float32,
        param_init_type: Any = np.float32,
        parallel_config: DpMpConfig | None = None,
    ) -> None:
        super().__init__()
        if hidden_size % num_heads:
            raise ConfigurationError(
                f"MultiHeadAttention: hidden_size {hidden_size} is not a multiple of num_heads {num_heads}; give "
                "each head equally many elements"
            )
        config = parallel_config or OpParallelConfig()
        self.extents = {"batch_size": batch_size, "src_seq_length": src_seq_length, "tgt_seq_length": tgt_seq_length}
        self.num_heads = num_heads
        self.size_per_head = hidden_size // num_heads
        self.softmax_compute_type = softmax_compute_type
        self._make_linear_layers(hidden_size, param_init_type, config.data_parallel, config.model_parallel)
        self._make_operators(config.data_parallel, config.model_parallel)
        self.dropout = Dropout(p=hidden_dropout_rate)
        self.dropout.dropout.shard(((config.data_parallel, 1),))
        self.prob_dropout = Dropout(p=attention_dropout_rate)
        self.prob_dropout.dropout.shard(((config.data_parallel, config.model_parallel, 1, 1),))
        self.softmax = Softmax()
        self.softmax.softmax.shard(((config.data_parallel, config.model_parallel, 1, 1),))

    def _make_linear_layers(self, hidden_size: int, dtype: Any, dp: int, mp: int) -> None:
        columns = ((dp, 1), (mp, 1)), ((dp, mp), (mp,))
        self.dense1 = Linear(hidden_size, hidden_size, param_init_type=dtype).shard(*columns)
        self.dense2 = Linear(hidden_size, hidden_size, param_init_type=dtype).shard(*columns)
        self.dense3 = Linear(hidden_size, hidden_size, param_init_type=dtype).shard(*columns)
        self.projection = Linear(hidden_size, hidden_size, transpose_b=False, param_init_type=dtype)
        self.projection.shard(((dp, mp), (mp, 1)), ((dp, 1), (1,)))
        self.projection.bias.parallel_optimizer = False

    def _make_operators(self, dp: int, mp: int) -> None:
        heads = (dp, mp, 1, 1)
        self.transpose = ops.Transpose().shard(((dp, 1, mp, 1),))
        self.merge_transpose = ops.Transpose().shard((heads,))
        self.scale = ops.Mul().shard((heads, ()))
        self.scores = ops.BatchMatMul(transpose_b=True).shard((heads, heads))
        self.weigh = ops.BatchMatMul().shard((heads, heads))
        mask = (dp, mp if self.num_heads == 1 else 1, 1, 1)
        self.sub = ops.Sub().shard(((), mask))
        self.mul = ops.Mul().shard((mask, ()))
        self.add = ops.Add().shard((heads, mask))

    def construct(
        self, query_tensor: Tensor, key_tensor: Tensor, value_tensor: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, None]:
        """Return a tensor of the shape of ``query_tensor``, and None for the keys and values, which are not kept.

        Inputs have shape (batch, length, hidden) or (batch * length, hidden). The mask (batch, query length, key
        length) is 1 where a query may look at a key, 0 elsewhere.
        """
        batch, query_length, key_length = attention_mask.shape
        seen = {"batch_size": batch, "src_seq_length": query_length, "tgt_seq_length": key_length}
        remark_on_extents(self, self.extents, seen)
        query = self._heads(self.dense1(_rows(query_tensor)), batch)
        key = self._heads(self.dense2(_rows(key_tensor)), batch)
        value = self._heads(self.dense3(_rows(value_tensor)), batch)
        query = self.scale(query, 1.0 / math.sqrt(self.size_per_head))
        scores = at_least(self.scores(query, key), self.softmax_compute_type)
        probabilities = self.softmax(self.add(scores, self._masking(attention_mask, scores.dtype))).astype(value.dtype)
        seen = self.weigh(self.prob_dropout(probabilities), value)
        merged = self.merge_transpose(seen, (0, 2, 1, 3)).reshape((-1, self.num_heads * self.size_per_head))
        output = self.dropout(self.projection(merged))
        return output.reshape(query_tensor.shape), None

    def _heads(self, rows: Tensor, batch: int) -> Tensor:
        """Return rows (batch * length, hidden) as (batch, heads, length, size_per_head)."""
        split = rows.reshape((batch, -1, self.num_heads, self.size_per_head))
        heads: Tensor = self.transpose(split, (0, 2, 1, 3))
        return heads

    def _masking(self, attention_mask: Tensor, dtype: Any) -> Tensor:
        """Return what is added to the scores, (batch, 1, query length, key length)."""
        batch, query_length, key_length = attention_mask.shape
        mask = attention_mask.astype(dtype).reshape((batch, 1, query_length, key_length))
        masking: Tensor = self.mul(self.sub(1.0, mask), _MASKED)
        return masking


def _rows(x: Tensor) -> Tensor:
    return x if x.ndim == 2 else x.reshape((-1, x.shape[-1]))


def at_least(x: Tensor, dtype: Any) -> Tensor:
    """Return ``x`` in ``dtype``, or in its own dtype where that is the wider one.

    >>> at_least(Tensor([1.0]), np.float64).dtype
    mpiparallel.float64
    """
    wide = common_dtype(np.dtype(x.dtype), np.dtype(dtype))
    return x if wide == x.dtype else x.astype(wide)
