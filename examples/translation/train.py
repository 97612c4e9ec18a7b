"""Train a translation Transformer, cut over any number of ranks; see README.md beside this file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import mpiparallel as ms
from mpiparallel import context, nn, ops
from mpiparallel.communication import get_group_size, get_rank, init
from mpiparallel.dataset import config as dataset_config
from mpiparallel.dataset import text
from mpiparallel.nn.initializer import Normal
from mpiparallel.nn.transformer import (
    AttentionMask,
    CrossEntropyLoss,
    EmbeddingOpParallelConfig,
    Transformer,
    TransformerOpParallelConfig,
    VocabEmbedding,
)
from mpiparallel.train.callback import Callback, CheckpointConfig, LossMonitor, ModelCheckpoint, RunContext, TimeMonitor

PAD = 1


def parse_arguments() -> argparse.Namespace:
    """Return the command line; its names are those of MindSpore's tutorial."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file_path", default="", help="English<TAB>French lines, or one of two newstest .sgm files")
    parser.add_argument("--src_len", type=int, default=10)
    parser.add_argument("--tgt_len", type=int, default=10)
    parser.add_argument("--vocab_size", type=int, default=2400)
    parser.add_argument("--d_model", type=int, default=128)
    parser.add_argument("--encoder_layer", type=int, default=1)
    parser.add_argument("--decoder_layer", type=int, default=1)
    parser.add_argument("--num_heads", type=int, default=8)
    parser.add_argument("--batch_size", type=int, default=32, help="of all ranks together")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mp", type=int, default=1, help="parts that the weights are cut into")
    parser.add_argument("--dp", type=int, default=0, help="parts that the batch is cut into (default: ranks / mp)")
    parser.add_argument("--enable_parallel_optimizer", type=int, default=1, choices=(0, 1))
    parser.add_argument("--checkpoints", default="checkpoints", help="folder of the checkpoints")
    parser.add_argument("--save_steps", type=int, default=0, help="steps between two checkpoints (default: at the end)")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint, on any ranks and cut")
    return parser.parse_args()


class Embedding(nn.Cell):
    """The sum of a word's and a position's embedding, with dropout: (batch, length) ids to (batch, length, d_model)."""

    def __init__(self, arguments: argparse.Namespace, length: int, config: EmbeddingOpParallelConfig) -> None:
        super().__init__()
        self.word = self._table(arguments.vocab_size, arguments.d_model, config)
        self.position = self._table(length, arguments.d_model, config)
        batch = (config.data_parallel, 1, 1)
        self.add = ops.Add().shard((batch, batch))
        self.dropout = nn.Dropout(0.9)
        self.dropout.dropout.shard((batch,))

    def _table(self, count: int, size: int, config: EmbeddingOpParallelConfig) -> VocabEmbedding:
        return VocabEmbedding(count, size, config, ms.initializer(Normal(0.02), (count, size), ms.dtype.float32))

    def construct(self, ids: ms.Tensor, positions: ms.Tensor) -> ms.Tensor:
        words, _ = self.word(ids)
        places, _ = self.position(positions)
        return self.dropout(self.add(words, places))


class TranslationNet(nn.Cell):
    """Encoder and decoder, written as for one device; only ``config`` knows that there are many. Returns the loss."""

    def __init__(self, arguments: argparse.Namespace, config: TransformerOpParallelConfig) -> None:
        super().__init__()
        batch, model = config.data_parallel, config.model_parallel
        self.source = Embedding(arguments, arguments.src_len, config.embedding_dp_mp_config)
        self.target = Embedding(arguments, arguments.tgt_len, config.embedding_dp_mp_config)
        self.transformer = Transformer(
            hidden_size=arguments.d_model,
            batch_size=arguments.batch_size,
            ffn_hidden_size=arguments.d_model,
            src_seq_length=arguments.src_len,
            tgt_seq_length=arguments.tgt_len,
            encoder_layers=arguments.encoder_layer,
            decoder_layers=arguments.decoder_layer,
            num_heads=arguments.num_heads,
            parallel_config=config,
        )
        self.causal_mask = AttentionMask(arguments.tgt_len)
        self.head = nn.Dense(arguments.d_model, arguments.vocab_size, has_bias=False)
        self.head.matmul.shard(((batch, 1), (model, 1)))
        self.loss = CrossEntropyLoss(config.dp_mp_config)
        self.not_equal = ops.NotEqual().shard(((batch, 1), ()))

    def construct(
        self,
        source_ids: ms.Tensor,
        source_positions: ms.Tensor,
        source_mask: ms.Tensor,
        target_ids: ms.Tensor,
        target_positions: ms.Tensor,
        memory_mask: ms.Tensor,
        labels: ms.Tensor,
    ) -> ms.Tensor:
        given = ops.cast(self.not_equal(target_ids, PAD), ms.dtype.float32)
        source = self.source(source_ids, source_positions)
        target = self.target(target_ids, target_positions)
        decoded, _, _ = self.transformer(source, source_mask, target, self.causal_mask(given), memory_mask)
        logits = self.head(decoded)
        logits = ops.reshape(logits, (-1, logits.shape[-1]))
        return self.loss(logits, ops.reshape(labels, (-1,)), ops.reshape(given, (-1,)))


class Losses(Callback):
    """Keep the loss of each step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def step_end(self, run_context: RunContext) -> None:
        self.losses.append(float(run_context.original_args().net_outputs.asnumpy()))

    def write(self) -> None:
        """Write them to a file, as a curve."""
        ranks = get_group_size()
        lines = {f"{ranks} ranks": [list(range(1, len(self.losses) + 1)), self.losses]}
        Path(f"{ranks}_ranks.result.json").write_text(json.dumps({"x": "step", "y": "loss", "lines": lines}))


def parameter_groups(network: nn.Cell) -> list[dict[str, Any]]:
    """Return the weights with decay, and the biases and layer norms without."""
    parameters = network.trainable_params()
    decayed = [parameter for parameter in parameters if parameter.ndim > 1]
    spared = [parameter for parameter in parameters if parameter.ndim <= 1]
    return [
        {"params": decayed, "weight_decay": 0.1},
        {"params": spared, "weight_decay": 0.0},
        {"order_params": parameters},
    ]


def main() -> None:
    """Train, and save the slices of each rank."""
    arguments = parse_arguments()
    init()
    context.set_seed(arguments.seed)
    dataset_config.set_prefetch_size(0)  # sentences are made in Python, of which one thread runs at a time
    context.set_auto_parallel_context(
        parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL,
        full_batch=True,
        enable_parallel_optimizer=bool(arguments.enable_parallel_optimizer),
    )
    pairs = text.load_pairs(arguments.file_path) if arguments.file_path else text.catalogue_pairs()
    dataset = text.translation_dataset(
        pairs,
        arguments.src_len,
        arguments.tgt_len,
        arguments.vocab_size,
        arguments.batch_size,
        arguments.seed,
        start_token=True,
    )
    config = TransformerOpParallelConfig(
        data_parallel=arguments.dp or get_group_size() // arguments.mp, model_parallel=arguments.mp
    )
    network = TranslationNet(arguments, config)
    optimizer = nn.AdamWeightDecay(parameter_groups(network), learning_rate=arguments.lr)
    model = ms.Model(network, optimizer=optimizer)
    if arguments.resume:
        found = model.resume(arguments.checkpoints, dataset)
        if get_rank() == 0:
            print(f"resumed from {found}" if found else f"no checkpoint in {arguments.checkpoints}", flush=True)
    saved = CheckpointConfig(arguments.save_steps, keep_checkpoint_max=2, async_save=True)
    losses = Losses()
    callbacks = [losses, ModelCheckpoint("translation", arguments.checkpoints, saved)]
    if get_rank() == 0:
        callbacks += [LossMonitor(per_print_times=10), TimeMonitor()]
    model.train(arguments.epochs, dataset, callbacks, dataset_sink_mode=False)
    if get_rank() == 0:
        losses.write()


if __name__ == "__main__":
    main()
