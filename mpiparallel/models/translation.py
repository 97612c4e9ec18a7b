"""The tutorials' encoder-decoder Transformer for translation."""

from __future__ import annotations

import re
from typing import Any

import mpiparallel.nn as nn
import mpiparallel.ops as ops
from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import float32
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.initializer import Normal, initializer
from mpiparallel.nn.transformer import (
    AttentionMask,
    CrossEntropyLoss,
    EmbeddingOpParallelConfig,
    Transformer,
    TransformerOpParallelConfig,
    VocabEmbedding,
)

PAD = 1


@dataclass(frozen=True)
class TranslationConfig:
    """The sizes of the network; lengths in tokens, sizes in elements."""

    batch_size: int = 32
    source_length: int = 10
    target_length: int = 10
    vocab_size: int = 20000
    hidden_size: int = 128
    encoder_layers: int = 1
    decoder_layers: int = 1
    num_heads: int = 8
    dropout_rate: float = 0.1
    dtype: Any = float32


def _embedding(count: int, config: TranslationConfig, parallel_config: EmbeddingOpParallelConfig) -> VocabEmbedding:
    table = initializer(Normal(0.02), (count, config.hidden_size), config.dtype)
    return VocabEmbedding(count, config.hidden_size, parallel_config, table)


class TokenEmbedding(nn.Cell):
    """The sum of a word's and a position's embedding, with dropout: (batch, length) ids to (batch, length, hidden)."""

    def __init__(self, config: TranslationConfig, length: int, parallel_config: EmbeddingOpParallelConfig) -> None:
        super().__init__()
        self.word_embedding = _embedding(config.vocab_size, config, parallel_config)
        self.position_embedding = _embedding(length, config, parallel_config)
        batch = parallel_config.data_parallel
        self.add = ops.Add().shard(((batch, 1, 1), (batch, 1, 1)))
        self.dropout = nn.Dropout(1.0 - config.dropout_rate)
        self.dropout.dropout.shard(((batch, 1, 1),))

    def construct(self, ids: Tensor, positions: Tensor) -> Tensor:
        words, _ = self.word_embedding(ids)
        places, _ = self.position_embedding(positions)
        embedded: Tensor = self.dropout(self.add(words, places))
        return embedded


class TranslationNetwork(nn.Cell):
    """An encoder-decoder Transformer that returns the mean cross entropy over the target tokens that are not padding.

    The batch is cut by ``parallel_config.data_parallel``; attention heads, feed-forward layers and the vocabulary of
    the output by ``model_parallel``. Of ``pipeline_stage`` stages the first has the embeddings. Source: the MindSpore
    tutorial "Distributed Parallel Training Transformer Model".
    """

    def __init__(self, config: TranslationConfig, parallel_config: TransformerOpParallelConfig) -> None:
        super().__init__()
        embedding_config = parallel_config.embedding_dp_mp_config
        batch, model = parallel_config.data_parallel, parallel_config.model_parallel
        self.source_embedding = TokenEmbedding(config, config.source_length, embedding_config)
        self.target_embedding = TokenEmbedding(config, config.target_length, embedding_config)
        self.transformer = Transformer(
            hidden_size=config.hidden_size,
            batch_size=config.batch_size,
            ffn_hidden_size=config.hidden_size,
            src_seq_length=config.source_length,
            tgt_seq_length=config.target_length,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            num_heads=config.num_heads,
            attention_dropout_rate=0.0,
            hidden_dropout_rate=0.0,
            param_init_type=config.dtype,
            parallel_config=parallel_config,
        )
        self.attention_mask = AttentionMask(config.target_length, parallel_config.dp_mp_config)
        self.head = nn.Dense(config.hidden_size, config.vocab_size, has_bias=False, dtype=config.dtype)
        self.head.matmul.shard(((batch, 1), (model, 1)))
        self.loss = CrossEntropyLoss(parallel_config.dp_mp_config)
        self.not_equal = ops.NotEqual().shard(((batch, 1), ()))
        self.dtype = config.dtype
        last = parallel_config.pipeline_stage - 1
        for cell, stage in (
            (self.source_embedding, 0),
            (self.target_embedding, 0),
            (self.head, last),
            (self.loss, last),
        ):
            cell.pipeline_stage = stage

    def construct(
        self,
        source_ids: Tensor,
        source_positions: Tensor,
        source_mask: Tensor,
        target_ids: Tensor,
        target_positions: Tensor,
        memory_mask: Tensor,
        labels: Tensor,
    ) -> Tensor:
        source = self.source_embedding(source_ids, source_positions)
        target = self.target_embedding(target_ids, target_positions)
        given = ops.cast(self.not_equal(target_ids, PAD), self.dtype)
        decoded, _, _ = self.transformer(source, source_mask, target, self.attention_mask(given), memory_mask)
        logits = self.head(decoded)
        logits = ops.reshape(logits, (-1, logits.shape[-1]))
        loss: Tensor = self.loss(logits, ops.reshape(labels, (-1,)), ops.reshape(given, (-1,)))
        return loss


def decay_groups(parameters: list[Parameter], weight_decay: float = 0.1) -> list[dict[str, Any]]:
    """Return parameter groups with weight decay for matrices, none for biases and layer norms (the tutorial's rule).

    Every parameter is in exactly one group, and ``order_params`` keeps the given order.
    """
    decayed = [one for one in parameters if one.ndim >= 2 and not re.search("layernorm|bias", one.name.lower())]
    decayed_ids = {id(one) for one in decayed}
    spared = [one for one in parameters if id(one) not in decayed_ids]
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": spared, "weight_decay": 0.0},
        {"order_params": parameters},
    ]
