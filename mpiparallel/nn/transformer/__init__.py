"""Transformers whose layers are cut by data and model parallelism (MindSpore's ``nn.transformer``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.nn.transformer.attention import MultiHeadAttention as MultiHeadAttention
from mpiparallel.nn.transformer.attention_mask import AttentionMask as AttentionMask
from mpiparallel.nn.transformer.decoder import TransformerDecoder as TransformerDecoder
from mpiparallel.nn.transformer.decoder import TransformerDecoderLayer as TransformerDecoderLayer
from mpiparallel.nn.transformer.encoder import TransformerEncoder as TransformerEncoder
from mpiparallel.nn.transformer.encoder import TransformerEncoderLayer as TransformerEncoderLayer
from mpiparallel.nn.transformer.feed_forward import FeedForward as FeedForward
from mpiparallel.nn.transformer.loss import CrossEntropyLoss as CrossEntropyLoss
from mpiparallel.nn.transformer.op_parallel_config import EmbeddingOpParallelConfig as EmbeddingOpParallelConfig
from mpiparallel.nn.transformer.op_parallel_config import OpParallelConfig as OpParallelConfig
from mpiparallel.nn.transformer.op_parallel_config import TransformerOpParallelConfig as TransformerOpParallelConfig
from mpiparallel.nn.transformer.op_parallel_config import TransformerRecomputeConfig as TransformerRecomputeConfig
from mpiparallel.nn.transformer.transformer import Transformer as Transformer
from mpiparallel.nn.transformer.vocab_embedding import VocabEmbedding as VocabEmbedding

__all__ = [
    "AttentionMask",
    "CrossEntropyLoss",
    "EmbeddingOpParallelConfig",
    "FeedForward",
    "MultiHeadAttention",
    "OpParallelConfig",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TransformerOpParallelConfig",
    "TransformerRecomputeConfig",
    "VocabEmbedding",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
