"""The decoder of a transformer."""

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


class TransformerDecoderLayer(TransformerBlock):
    """Self attention, attention to the encoder's output, and a feed-forward network, each after a layer norm.

    Everything is computed in the dtype of the inputs or ``param_init_type``, whichever is wider; layer norm and softmax
    in their compute types at least.

    Parameters
    ----------
    hidden_size, ffn_hidden_size, num_heads, attention_dropout_rate, hidden_dropout_rate, post_layernorm_residual
        As of TransformerEncoderLayer.
    layernorm_compute_type, softmax_compute_type, param_init_type, hidden_act, parallel_config
        As of TransformerEncoderLayer.
    batch_size, src_seq_length, tgt_seq_length : int
        Only compared with the inputs: a remark tells where they say otherwise.

    Raises
    ------
    ConfigurationError
        For a value that an argument cannot have.

    Examples
    --------
    >>> from mpiparallel import Tensor
    >>> x, mask = Tensor(np.ones((2, 3, 8), np.float32)), Tensor(np.ones((2, 3, 3), np.float32))
    >>> TransformerDecoderLayer(8, 16, 2, 2, 3, 3)(x, mask, x, mask)[0].shape
    (2, 3, 8)
    """

    @checked
    def __init__(
        self,
        hidden_size: int,
        ffn_hidden_size: int,
        num_heads: int,
        batch_size: int | None,
        src_seq_length: int,
        tgt_seq_length: int,
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
        self.cross_attention_layernorm = self.new_layer_norm(hidden_size)
        shared = (
            hidden_size,
            num_heads,
            hidden_dropout_rate,
            attention_dropout_rate,
            softmax_compute_type,
            param_init_type,
            config,
        )
        self.attention = MultiHeadAttention(batch_size, tgt_seq_length, tgt_seq_length, *shared)
        self.cross_attention = MultiHeadAttention(batch_size, tgt_seq_length, src_seq_length, *shared)
        widths = hidden_size, ffn_hidden_size
        self.output = FeedForward(*widths, hidden_dropout_rate, hidden_act, param_init_type, config)

    def construct(
        self,
        hidden_stats: Tensor,
        decoder_mask: Tensor,
        encoder_output: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """Return a tensor of the shape of ``hidden_stats``, (batch, length, hidden) or two-dim, and None.

        ``decoder_mask`` (batch, length, length) is 1 where a position may look at another. ``memory_mask`` (batch,
        length, source length) is 1 where it may look at one of ``encoder_output``. Without an encoder's output there is
        no attention to it.
        """
        rows = self.rows(hidden_stats)
        normalised = self.normalised(self.layernorm1, rows)
        seen, _ = self.attention(normalised, normalised, normalised, decoder_mask)
        rows = self.residual(rows, normalised, seen)
        if encoder_output is not None:
            normalised = self.normalised(self.cross_attention_layernorm, rows)
            memory = self.rows(encoder_output)
            seen, _ = self.cross_attention(normalised, memory, memory, memory_mask)
            rows = self.residual(rows, normalised, seen)
        normalised = self.normalised(self.layernorm2, rows)
        rows = self.residual(rows, normalised, self.output(normalised))
        return rows.reshape(hidden_stats.shape), None


class TransformerDecoder(Cell):
    """``num_layers`` decoder layers, the cells of ``blocks``.

    ``lambda_func(network, layer_id, offset, parallel_config, layers)`` may set the pipeline stage and fusion of a
    layer.

    Parameters
    ----------
    num_layers : int
        How many.
    batch_size, hidden_size, ffn_hidden_size, src_seq_length, tgt_seq_length, num_heads, attention_dropout_rate
        As of TransformerDecoderLayer.
    hidden_dropout_rate, post_layernorm_residual, layernorm_compute_type, softmax_compute_type, param_init_type
        As of TransformerDecoderLayer.
    hidden_act : str
        As of TransformerDecoderLayer.
    lambda_func : callable, optional
        It is called on each layer.
    offset : int
        What it is told of the layers before.
    parallel_config : TransformerOpParallelConfig, optional
        The cuts; by default there is none.

    Raises
    ------
    ConfigurationError
        For a value that an argument cannot have.

    Examples
    --------
    >>> from mpiparallel import Tensor
    >>> x, mask = Tensor(np.ones((2, 3, 8), np.float32)), Tensor(np.ones((2, 3, 3), np.float32))
    >>> TransformerDecoder(2, 2, 8, 16, 3, 3, 2)(x, mask, x, mask)[0].shape
    (2, 3, 8)
    """

    @checked
    def __init__(
        self,
        num_layers: int,
        batch_size: int | None,
        hidden_size: int,
        ffn_hidden_size: int,
        src_seq_length: int,
        tgt_seq_length: int,
        num_heads: int,
        attention_dropout_rate: float = 0.1,
        hidden_dropout_rate: float = 0.1,
        post_layernorm_residual: bool = False,
        layernorm_compute_type: Any = np.float32,
        softmax_compute_type: Any = np.float32,
        param_init_type: Any = np.float32,
        hidden_act: str = "gelu",
        lambda_func: LayerFunction | None = None,
        offset: int = 0,
        parallel_config: TransformerOpParallelConfig | None = None,
    ) -> None:
        super().__init__()
        config = parallel_config or TransformerOpParallelConfig()
        make_layer = partial(
            TransformerDecoderLayer,
            *(hidden_size, ffn_hidden_size, num_heads, batch_size, src_seq_length, tgt_seq_length),
            *(attention_dropout_rate, hidden_dropout_rate, post_layernorm_residual),
            *(layernorm_compute_type, softmax_compute_type, param_init_type, hidden_act, config),
        )
        self.blocks = stack(make_layer, num_layers, lambda_func, offset, config)

    def construct(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor,
        encoder_output: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[None, ...]]:
        """Return a tensor of the shape of ``hidden_states``, and None for each layer."""
        for block in self.blocks:
            hidden_states, _ = block(hidden_states, attention_mask, encoder_output, memory_mask)
        return hidden_states, (None,) * len(self.blocks)
