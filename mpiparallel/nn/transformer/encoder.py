"""The encoder of a transformer."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.transformer.arguments import checked
from mpiparallel.nn.transformer.attention import MultiHeadAttention
from mpiparallel.nn.transformer.block import LayerFunction, TransformerBlock, stack
from mpiparallel.nn.transformer.feed_forward import FeedForward
from mpiparallel.nn.transformer.op_parallel_config import DpMpConfig, OpParallelConfig, TransformerOpParallelConfig


class TransformerEncoderLayer(TransformerBlock):
    """Self attention and a feed-forward network, each after a layer norm and beside a residual.

    Everything is computed in the dtype of the inputs or ``param_init_type``, whichever is wider; layer norm and softmax
    in their compute types at least.
    """

    @checked
    def __init__(
        self,
        batch_size: int | None,
        hidden_size: int,
        ffn_hidden_size: int,
        num_heads: int,
        seq_length: int,
        attention_dropout_rate: float = 0.1,
        hidden_dropout_rate: float = 0.1,
        post_layernorm_residual: bool = False,
        layernorm_compute_type: Any = np.float32,
        softmax_compute_type: Any = np.float32,
        param_init_type: Any = np.float32,
        hidden_act: str = "gelu",
        parallel_config: DpMpConfig | None = None,
    ) -> None:
        config = parallel_config or OpParallelConfig()
        super().__init__(post_layernorm_residual, layernorm_compute_type, param_init_type, config)
        self.layernorm1 = self.new_layer_norm(hidden_size)
        self.layernorm2 = self.new_layer_norm(hidden_size)
        self.attention = MultiHeadAttention(
            batch_size,
            seq_length,
            seq_length,
            hidden_size,
            num_heads,
            hidden_dropout_rate,
            attention_dropout_rate,
            softmax_compute_type,
            param_init_type,
            config,
        )
        widths = hidden_size, ffn_hidden_size
        self.output = FeedForward(*widths, hidden_dropout_rate, hidden_act, param_init_type, config)

    def construct(self, x: Tensor, input_mask: Tensor) -> tuple[Tensor, None]:
        """Return a tensor of the shape of ``x``, (batch, length, hidden) or (batch * length, hidden), and None.

        ``input_mask`` (batch, length, length) is 1 where a position may look at another.
        """
        rows = self.rows(x)
        normalised = self.normalised(self.layernorm1, rows)
        seen, _ = self.attention(normalised, normalised, normalised, input_mask)
        rows = self.residual(rows, normalised, seen)
        normalised = self.normalised(self.layernorm2, rows)
        rows = self.residual(rows, normalised, self.output(normalised))
        return rows.reshape(x.shape), None


class TransformerEncoder(Cell):
    """``num_layers`` encoder layers, the cells of ``blocks``.

    ``lambda_func(network, layer_id, offset, parallel_config, layers)`` is called on each layer and may set its pipeline
    stage and fusion.
    """

    @checked
    def __init__(
        self,
        batch_size: int | None,
        num_layers: int,
        hidden_size: int,
        ffn_hidden_size: int,
        seq_length: int,
        num_heads: int,
        attention_dropout_rate: float = 0.1,
        hidden_dropout_rate: float = 0.1,
        hidden_act: str = "gelu",
        post_layernorm_residual: bool = False,
        layernorm_compute_type: Any = np.float32,
        softmax_compute_type: Any = np.float32,
        param_init_type: Any = np.float32,
        lambda_func: LayerFunction | None = None,
        offset: int = 0,
        parallel_config: TransformerOpParallelConfig | None = None,
    ) -> None:
        super().__init__()
        config = parallel_config or TransformerOpParallelConfig()
        make_layer = partial(
            TransformerEncoderLayer,
            *(batch_size, hidden_size, ffn_hidden_size, num_heads, seq_length),
            *(attention_dropout_rate, hidden_dropout_rate, post_layernorm_residual),
            *(layernorm_compute_type, softmax_compute_type, param_init_type, hidden_act, config),
        )
        self.blocks = stack(make_layer, num_layers, lambda_func, offset, config)

    def construct(self, hidden_states: Tensor, attention_mask: Tensor) -> tuple[Tensor, tuple[None, ...]]:
        """Return a tensor of the shape of ``hidden_states``, and None for each layer."""
        for block in self.blocks:
            hidden_states, _ = block(hidden_states, attention_mask)
        return hidden_states, (None,) * len(self.blocks)
