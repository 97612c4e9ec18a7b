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

    Parameters
    ----------
    batch_size : int, optional
        Only compared with the inputs: a remark tells where they say otherwise.
    hidden_size : int
        Elements of the vector of a position.
    ffn_hidden_size : int
        Elements between the two layers of the feed-forward network.
    num_heads : int
        Heads of attention; it divides ``hidden_size``.
    seq_length : int
        Likewise only compared.
    attention_dropout_rate, hidden_dropout_rate : float
        Probabilities, at least 0 and below 1, of attention and of what is added to the residual.
    post_layernorm_residual : bool
        Whether the residual is what comes out of the layer norm.
    layernorm_compute_type, softmax_compute_type : dtype
        In which these compute at least.
    param_init_type : dtype
        Of the parameters.
    hidden_act : str
        A name for ``get_activation``.
    parallel_config : OpParallelConfig, optional
        The cuts; by default there is none.

    Raises
    ------
    ConfigurationError
        For a value that an argument cannot have.

    Examples
    --------
    >>> from mpiparallel import Tensor
    >>> x, mask = Tensor(np.ones((2, 3, 8), np.float32)), Tensor(np.ones((2, 3, 3), np.float32))
    >>> TransformerEncoderLayer(2, 8, 16, 2, 3)(x, mask)[0].shape
    (2, 3, 8)
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

    ``lambda_func(network, layer_id, offset, parallel_config, layers)`` may set the pipeline stage and fusion of a
    layer.

    Parameters
    ----------
    num_layers : int
        How many.
    batch_size, hidden_size, ffn_hidden_size, seq_length, num_heads, attention_dropout_rate, hidden_dropout_rate
        As of TransformerEncoderLayer.
    hidden_act, post_layernorm_residual, layernorm_compute_type, softmax_compute_type, param_init_type
        As of TransformerEncoderLayer.
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
    >>> TransformerEncoder(2, 2, 8, 16, 3, 2)(x, mask)[0].shape
    (2, 3, 8)
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
