"""The networks that are timed: a model, a batch for each rank, and the same in the words of the peer in PyTorch."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiparallel import nn
from mpiparallel.graph.tensor import Tensor
from mpiparallel.models.resnet import resnet50
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork, decay_groups
from mpiparallel.nn.transformer import TransformerEncoder, TransformerOpParallelConfig, VocabEmbedding
from mpiparallel.train import Model

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Workload:
    """A network: its flags that differ from the parser's, how to make it, and what its peer must know.

    ``make_batch`` takes the flags and the number of samples; ``peer_sizes`` are the arguments of the peer's network.
    """

    defaults: dict[str, int]
    make_model: Callable[[Namespace], Model]
    make_batch: Callable[[Namespace, int], Arrays]
    peer_sizes: Callable[[Namespace], dict[str, Any]]
    heading: Callable[[Namespace], str]


def _cuts(flags: Namespace) -> TransformerOpParallelConfig:
    if flags.mode != "semi_auto_parallel":
        return TransformerOpParallelConfig()
    return TransformerOpParallelConfig(data_parallel=flags.dp, model_parallel=flags.mp)


def _adam(network: nn.Cell) -> Model:
    return Model(network, optimizer=nn.AdamWeightDecay(decay_groups(network.trainable_params()), learning_rate=1e-4))


def _ids(flags: Namespace, samples: int, length: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(4, flags.vocab_size, (samples, length), dtype=np.int32)


def _positions(samples: int, length: int) -> np.ndarray[Any, Any]:
    return np.tile(np.arange(length, dtype=np.int32), (samples, 1))


def translation_model(flags: Namespace) -> Model:
    """Return the tutorials' encoder-decoder Transformer."""
    sizes = TranslationConfig(
        batch_size=flags.batch_size,
        source_length=flags.src_len,
        target_length=flags.tgt_len,
        vocab_size=flags.vocab_size,
        hidden_size=flags.d_model,
        encoder_layers=flags.encoder_layers,
        decoder_layers=flags.decoder_layers,
        num_heads=flags.num_heads,
        dropout_rate=0.0 if flags.peer else 0.1,
    )
    return _adam(TranslationNetwork(sizes, _cuts(flags)))


def translation_batch(flags: Namespace, samples: int) -> Arrays:
    """Return the seven columns of a batch without padding."""
    source, target = flags.src_len, flags.tgt_len

    def ones(rows: int, columns: int) -> np.ndarray[Any, Any]:
        return np.ones((samples, rows, columns), np.float32)

    return [
        *(_ids(flags, samples, source), _positions(samples, source), ones(source, source)),
        *(_ids(flags, samples, target), _positions(samples, target), ones(target, source)),
        _ids(flags, samples, target)[:, ::-1].copy(),
    ]


class EncoderNetwork(nn.Cell):
    """Ids to the mean cross entropy of a label at each position, through layers that see all positions."""

    def __init__(self, flags: Namespace) -> None:
        super().__init__()
        cuts = _cuts(flags)
        tables = flags.d_model, cuts.embedding_dp_mp_config
        self.words = VocabEmbedding(flags.vocab_size, *tables)
        self.places = VocabEmbedding(flags.src_len, *tables)
        self.encoder = TransformerEncoder(
            batch_size=flags.batch_size,
            num_layers=flags.encoder_layers,
            hidden_size=flags.d_model,
            ffn_hidden_size=flags.ffn,
            seq_length=flags.src_len,
            num_heads=flags.num_heads,
            attention_dropout_rate=0.0,
            hidden_dropout_rate=0.0,
            parallel_config=cuts,
        )
        self.head = nn.Dense(flags.d_model, flags.vocab_size, has_bias=False)
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, ids: Tensor, positions: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        x, _ = self.encoder(self.words(ids)[0] + self.places(positions)[0], mask)
        logits = self.head(x.reshape((-1, x.shape[-1])))
        loss: Tensor = self.loss(logits, labels.reshape((-1,)))
        return loss


def encoder_batch(flags: Namespace, samples: int) -> Arrays:
    """Return ids, positions, a mask that hides nothing, and labels."""
    length = flags.src_len
    ids = _ids(flags, samples, length)
    return [ids, _positions(samples, length), np.ones((samples, length, length), np.float32), ids[:, ::-1].copy()]


def resnet50_model(flags: Namespace) -> Model:
    """Return ResNet-50 with 10 classes and momentum."""
    network = resnet50(flags.batch_size, 10)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return Model(network, loss, nn.Momentum(network.trainable_params(), 0.01, 0.9))


def resnet50_batch(flags: Namespace, samples: int) -> Arrays:
    """Return images and labels."""
    random = np.random.default_rng(1)
    images = random.standard_normal((samples, 3, flags.image_size, flags.image_size), np.float32)
    return [images, random.integers(0, 10, samples, dtype=np.int32)]


def _transformer_sizes(flags: Namespace) -> dict[str, Any]:
    return {"vocab_size": flags.vocab_size, "width": flags.d_model, "heads": flags.num_heads}


WORKLOADS = {
    "translation": Workload(
        {"batch_size": 32, "encoder_layers": 1, "src_len": 10},
        translation_model,
        translation_batch,
        lambda flags: {
            **_transformer_sizes(flags),
            "lengths": [flags.src_len, flags.tgt_len],
            "layers": [flags.encoder_layers, flags.decoder_layers],
        },
        lambda flags: (
            f"Transformer, d_model {flags.d_model}, {flags.encoder_layers}+{flags.decoder_layers} layers, "
            f"vocabulary {flags.vocab_size}, batch {flags.batch_size} x ({flags.src_len} + {flags.tgt_len}) tokens"
        ),
    ),
    "encoder": Workload(
        {"batch_size": 16, "encoder_layers": 4, "src_len": 128},
        lambda flags: _adam(EncoderNetwork(flags)),
        encoder_batch,
        lambda flags: {
            **_transformer_sizes(flags),
            "length": flags.src_len,
            "hidden": flags.ffn,
            "layers": flags.encoder_layers,
        },
        lambda flags: (
            f"Transformer encoder, d_model {flags.d_model}, feed-forward {flags.ffn}, {flags.encoder_layers} layers, "
            f"vocabulary {flags.vocab_size}, batch {flags.batch_size} x {flags.src_len} tokens"
        ),
    ),
    "resnet50": Workload(
        {"batch_size": 32, "encoder_layers": 0, "src_len": 0},
        resnet50_model,
        resnet50_batch,
        lambda flags: {"image_size": flags.image_size},
        lambda flags: f"ResNet-50, batch {flags.batch_size} x {flags.image_size} x {flags.image_size} pixels",
    ),
}
