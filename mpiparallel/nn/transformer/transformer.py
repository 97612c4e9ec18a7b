"""Encoder and decoder together."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.transformer.arguments import checked
from mpiparallel.nn.transformer.block import LayerFunction, default_layer_function
from mpiparallel.nn.transformer.decoder import TransformerDecoder
from mpiparallel.nn.transformer.encoder import TransformerEncoder
from mpiparallel.nn.transformer.op_parallel_config import TransformerOpParallelConfig

Presents = tuple[None, ...] | None


class Transformer(Cell):
    """An encoder and a decoder (Vaswani and others, "Attention is all you need", 2017) under MindSpore's names.

    The batch is cut by ``parallel_config.data_parallel``, heads and hidden layers by ``model_parallel``; neither has to
    divide what it cuts. Everything is computed in the dtype of the inputs or ``param_init_type``, whichever is wider.

    Parameters
    ----------
    hidden_size, batch_size, ffn_hidden_size, src_seq_length, tgt_seq_length, num_heads, attention_dropout_rate
        As of TransformerDecoderLayer.
    hidden_dropout_rate, hidden_act, post_layernorm_residual, layernorm_compute_type, softmax_compute_type
        As of TransformerDecoderLayer.
    param_init_type : dtype
        As of TransformerDecoderLayer.
    encoder_layers, decoder_layers : int
        How many; without encoder layers there must be no decoder layers: use TransformerDecoder.
    lambda_func : callable, optional
        As of TransformerEncoder.
    use_past : bool
        False: keeping keys and values is not implemented yet.
    parallel_config : TransformerOpParallelConfig, optional
        The cuts; by default there is none.

    Raises
    ------
    ConfigurationError
        For what cannot be.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel import Tensor
    >>> x, mask = Tensor(np.ones((2, 3, 8), np.float32)), Tensor(np.ones((2, 3, 3), np.float32))
    >>> network = Transformer(8, 2, 16, 3, 3, encoder_layers=1, decoder_layers=1)
    >>> network(x, mask, x, mask, mask)[0].shape
    (2, 3, 8)
    """

    @checked
    def __init__(
        self,
        hidden_size: int,
        batch_size: int | None,
        ffn_hidden_size: int,
        src_seq_length: int,
        tgt_seq_length: int,
        encoder_layers: int = 3,
        decoder_layers: int = 3,
        num_heads: int = 2,
        attention_dropout_rate: float = 0.1,
        hidden_dropout_rate: float = 0.1,
        hidden_act: str = "gelu",
        post_layernorm_residual: bool = False,
        layernorm_compute_type: Any = np.float32,
        softmax_compute_type: Any = np.float32,
        param_init_type: Any = np.float32,
        lambda_func: LayerFunction | None = None,
        use_past: bool = False,
        parallel_config: TransformerOpParallelConfig | None = None,
    ) -> None:
        super().__init__()
        _check_layers(encoder_layers, decoder_layers, use_past)
        config = parallel_config or TransformerOpParallelConfig()
        function = lambda_func or default_layer_function(encoder_layers + decoder_layers)
        shared: dict[str, Any] = dict(
            batch_size=batch_size, hidden_size=hidden_size, ffn_hidden_size=ffn_hidden_size, num_heads=num_heads,
            attention_dropout_rate=attention_dropout_rate, hidden_dropout_rate=hidden_dropout_rate,
            hidden_act=hidden_act, post_layernorm_residual=post_layernorm_residual,
            layernorm_compute_type=layernorm_compute_type, softmax_compute_type=softmax_compute_type,
            param_init_type=param_init_type, lambda_func=function, parallel_config=config,
        )  # fmt: skip
        self.encoder = TransformerEncoder(num_layers=encoder_layers, seq_length=src_seq_length, **shared)
        self.decoder = None
        if decoder_layers:
            lengths: dict[str, Any] = {"src_seq_length": src_seq_length, "tgt_seq_length": tgt_seq_length}
            self.decoder = TransformerDecoder(num_layers=decoder_layers, offset=encoder_layers, **lengths, **shared)

    def construct(
        self,
        encoder_inputs: Tensor,
        encoder_masks: Tensor,
        decoder_inputs: Tensor | None = None,
        decoder_masks: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, Presents, Presents]:
        """Return the output of the decoder, or of the encoder where there is none, and for both None for each layer.

        Inputs have shape (batch, length, hidden); masks (batch, length, length), ``memory_mask`` (batch, target length,
        source length).
        """
        output, encoder_layer_present = self.encoder(encoder_inputs, encoder_masks)
        if self.decoder is None:
            return output, encoder_layer_present, None
        output, decoder_layer_present = self.decoder(decoder_inputs, decoder_masks, output, memory_mask)
        return output, encoder_layer_present, decoder_layer_present


def _check_layers(encoder_layers: int, decoder_layers: int, use_past: bool) -> None:
    if encoder_layers < 1 or decoder_layers < 0:
        raise ConfigurationError(
            f"Transformer: {encoder_layers} encoder layers and {decoder_layers} decoder layers; give at least 1 "
            "and 0, or use TransformerDecoder"
        )
    if use_past:
        raise ConfigurationError("Transformer: use_past=True is not implemented yet; use False")
