"""A translator in the structure of MindSpore's tutorial on distributed transformer training."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import nn, ops
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.initializer import Normal, initializer
from mpiparallel.nn.transformer import (
    AttentionMask,
    CrossEntropyLoss,
    Transformer,
    TransformerOpParallelConfig,
    VocabEmbedding,
)


class WordAndPosition(nn.Cell):
    """The sum of the embeddings of words and of their positions."""

    def __init__(self, vocab_size: int, length: int, hidden_size: int, config: Any, dtype: Any, dropout: float) -> None:
        super().__init__()
        dp = config.data_parallel
        words = initializer(Normal(0.5), (vocab_size, hidden_size), dtype)
        positions = initializer(Normal(0.5), (length, hidden_size), dtype)
        self.word_embedding = VocabEmbedding(vocab_size, hidden_size, config, words)
        self.position_embedding = VocabEmbedding(length, hidden_size, config, positions)
        self.add = ops.Add().shard(((dp, 1, 1), (dp, 1, 1)))
        self.dropout = nn.Dropout(1 - dropout)
        self.dropout.dropout.shard(((dp, 1, 1),))

    def construct(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return vectors, and the table of words."""
        words, table = self.word_embedding(ids)
        places, _ = self.position_embedding(positions)
        return self.dropout(self.add(words, places)), table


class Translator(nn.Cell):
    """Encoder, decoder, head and loss, called as the tutorial's network is."""

    def __init__(
        self,
        config: TransformerOpParallelConfig,
        batch: int = 4,
        src_len: int = 5,
        tgt_len: int = 6,
        hidden_size: int = 16,
        vocab_size: int = 20,
        num_heads: int = 4,
        dtype: Any = np.float32,
        dropout: float = 0.0,
        cut_head: bool = False,
    ) -> None:
        super().__init__()
        embedding = config.embedding_dp_mp_config
        self.src_embedding = WordAndPosition(vocab_size, src_len, hidden_size, embedding, dtype, dropout)
        self.tgt_embedding = WordAndPosition(vocab_size, tgt_len, hidden_size, embedding, dtype, dropout)
        self.layers_seen: list[int] = []

        def place(network: Any, layer_id: int, offset: int, parallel_config: Any, layers: int) -> None:
            network.pipeline_stage = 0
            network.set_comm_fusion(layer_id + offset + 1)
            self.layers_seen.append(layer_id + offset)

        self.base1 = Transformer(
            encoder_layers=1,
            decoder_layers=1,
            batch_size=batch,
            src_seq_length=src_len,
            tgt_seq_length=tgt_len,
            hidden_size=hidden_size,
            num_heads=num_heads,
            attention_dropout_rate=dropout,
            hidden_dropout_rate=dropout,
            lambda_func=place,
            ffn_hidden_size=2 * hidden_size,
            param_init_type=dtype,
            parallel_config=config,
        )
        self.attention_mask = AttentionMask(seq_length=tgt_len)
        self.head = nn.Dense(hidden_size, vocab_size, Normal(0.2), has_bias=False, dtype=dtype)
        rows, columns = (config.data_parallel, config.model_parallel) if cut_head else (1, 1)
        self.head.matmul.shard(((rows, 1), (columns, 1)))
        self.loss = CrossEntropyLoss(parallel_config=config.dp_mp_config)
        self.no_equal = ops.NotEqual().shard(((1, 1), ()))

    def construct(
        self,
        encoder_input: Tensor,
        encoder_position: Tensor,
        encoder_mask: Tensor,
        decoder_input: Tensor,
        decoder_position: Tensor,
        memory_mask: Tensor,
        label: Tensor,
    ) -> Tensor:
        """Return the loss."""
        encoded, _ = self.src_embedding(encoder_input, encoder_position)
        decoded, _ = self.tgt_embedding(decoder_input, decoder_position)
        valid = ops.Cast()(self.no_equal(decoder_input, 1), np.float32)
        output, _, _ = self.base1(encoded, encoder_mask, decoded, self.attention_mask(valid), memory_mask)
        logits = self.head(output)
        logits = ops.Reshape()(logits, (-1, logits.shape[-1]))
        loss: Tensor = self.loss(logits, ops.Reshape()(label, (-1,)), ops.Reshape()(valid, (-1,)))
        return loss


def sample_batch(
    batch: int = 4, src_len: int = 5, tgt_len: int = 6, vocab_size: int = 20
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return one batch of the seven columns."""
    generator = np.random.default_rng(5)
    ids = generator.integers(2, vocab_size, (batch, src_len)).astype(np.int32)
    targets = generator.integers(2, vocab_size, (batch, tgt_len)).astype(np.int32)
    targets[1:, -2:] = 1
    labels = generator.integers(0, vocab_size, (batch, tgt_len)).astype(np.int32)
    source_positions = np.tile(np.arange(src_len, dtype=np.int32), (batch, 1))
    target_positions = np.tile(np.arange(tgt_len, dtype=np.int32), (batch, 1))
    encoder_mask = np.ones((batch, src_len, src_len), np.float32)
    encoder_mask[0, :, -1] = 0
    memory_mask = np.ones((batch, tgt_len, src_len), np.float32)
    memory_mask[0, :, -1] = 0
    return ids, source_positions, encoder_mask, targets, target_positions, memory_mask, labels


def set_values(network: Any) -> Any:
    """Give every parameter values that make all parts of a network matter; return the network."""
    generator = np.random.default_rng(7)
    for parameter in network.get_parameters():
        parameter.set_data(generator.normal(0.0, 0.4, parameter.shape))
    return network
