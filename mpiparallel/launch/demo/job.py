"""What each rank of the demo runs: train, save, move to fewer ranks, train on.

This module is run on the ranks, never imported by the launcher.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel import context
from mpiparallel.checkpoint.files.durable_file import write_durably
from mpiparallel.communication import init, world
from mpiparallel.context.settings import current_configuration
from mpiparallel.dataset import config
from mpiparallel.dataset.text import catalogue_pairs, load_pairs, translation_dataset
from mpiparallel.launch.command_line.argument_types import count
from mpiparallel.launch.demo.arguments import add_size_arguments
from mpiparallel.layout.layout import Layout
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork, decay_groups
from mpiparallel.nn import AdamWeightDecay
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.train import Callback, CheckpointConfig, Model, ModelCheckpoint, ProgressMonitor, RunContext

_PARALLEL = {"parallel_mode": "semi_auto_parallel", "full_batch": True}
_SHOWN_PARAMETERS = 3


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    parser = argparse.ArgumentParser(prog="mpiparallel.launch.demo.job")
    parser.add_argument("--out", type=Path, required=True, help="where the report and the files of the ranks go")
    parser.add_argument("--dp", type=count, default=1)
    parser.add_argument("--mp", type=count, default=1)
    parser.add_argument("--target_dp", type=count, default=1)
    parser.add_argument("--target_mp", type=int, default=0, help="0: no move")
    add_size_arguments(parser)
    return parser


class _Recorder(Callback):
    """Keeps the loss and the moment of every step, and stops after a number of them."""

    def __init__(self, last_step: int) -> None:
        self.losses: list[float] = []
        self._moments: list[float] = []
        self._last_step = last_step

    def step_end(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        self.losses.append(float(parameters.net_outputs))
        self._moments.append(time.perf_counter())
        if parameters.cur_step_num >= self._last_step:
            run_context.request_stop()

    @property
    def seconds_per_step(self) -> float:
        """The mean time of a step, leaving out the first, which compiles; 0 on a rank that only waited."""
        if not self._moments:
            return 0.0
        return (self._moments[-1] - self._moments[0]) / max(len(self._moments) - 1, 1)


class DemoRank:
    """The demo on one rank."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        dtype = np.dtype(arguments.dtype)
        pairs = load_pairs(arguments.file_path) if arguments.file_path else catalogue_pairs()
        self._dataset = translation_dataset(
            pairs,
            arguments.src_len,
            arguments.tgt_len,
            arguments.vocab_size,
            arguments.batch_size,
            arguments.seed,
            float_type=dtype,
            start_token=True,
        )
        self._config = TranslationConfig(
            batch_size=arguments.batch_size,
            source_length=arguments.src_len,
            target_length=arguments.tgt_len,
            vocab_size=arguments.vocab_size,
            hidden_size=arguments.d_model,
            encoder_layers=arguments.encoder_layers,
            decoder_layers=arguments.decoder_layers,
            num_heads=arguments.num_heads,
            dtype=dtype,
        )
        source = arguments.file_path or "installed packages"
        _say(f"{len(pairs):,} English-French pairs of {source}: {self._dataset.get_dataset_size()} batches an epoch")

    def make_network(self, data_parallel: int, model_parallel: int) -> TranslationNetwork:
        """Return the network for a cut."""
        cut = TransformerOpParallelConfig(data_parallel=data_parallel, model_parallel=model_parallel)
        return TranslationNetwork(self._config, cut)

    def make_model(self, data_parallel: int, model_parallel: int) -> Model:
        """Return the network and its optimizer for a cut."""
        network = self.make_network(data_parallel, model_parallel)
        optimizer = AdamWeightDecay(decay_groups(network.trainable_params()), learning_rate=self._arguments.lr)
        return Model(network, optimizer=optimizer)

    def train(self, model: Model, last_step: int, callbacks: list[Callback]) -> dict[str, Any]:
        """Train until ``last_step`` and return what the report says of this phase."""
        configuration = current_configuration()
        recorder = _Recorder(last_step)
        first_step = model.step + 1
        epochs = -(-last_step // self._dataset.get_dataset_size())
        model.train(epochs, self._dataset, [*callbacks, recorder], dataset_sink_mode=False)
        return {
            "ranks": configuration.device_num,
            "optimizer_parallel": configuration.enable_parallel_optimizer,
            "first_step": first_step,
            "losses": recorder.losses,
            "seconds_per_step": recorder.seconds_per_step,
        }


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Do the job on this rank and return what rank 0 reports."""
    init()
    everyone = world.current()
    context.set_seed(arguments.seed)
    # Sentences are made in Python, of which one thread runs at a time: a second one would only be in the way.
    config.set_prefetch_size(0)
    moving = arguments.target_mp > 0
    if moving:
        folder = arguments.out / f"device{everyone.rank}"
        folder.mkdir(exist_ok=True)
        os.environ["GROUP_INFO_FILE"] = str(folder / "group_info.pb")
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(
        **_PARALLEL,
        enable_parallel_optimizer=everyone.size > 1,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        strategy_ckpt_save_file=str(arguments.out / "src_strategy.ckpt") if moving and everyone.rank == 0 else "",
    )
    job = DemoRank(arguments)
    model = job.make_model(arguments.dp, arguments.mp)
    shards = arguments.out / "checkpoints"
    saver = ModelCheckpoint("translation", str(shards), CheckpointConfig(0))
    last_step = arguments.steps + (0 if moving else arguments.more_steps)
    phase = job.train(model, last_step, [ProgressMonitor(), *([saver] if moving else [])])
    report: dict[str, Any] = {"phases": [phase | {"data_parallel": arguments.dp, "model_parallel": arguments.mp}]}
    if moving:
        _say(f"saved {everyone.size} shards in {shards}")
        _move_and_train_on(job, model, arguments, report)
    everyone.rest()
    return report


def _move_and_train_on(job: DemoRank, model: Model, arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    """Hand the training over to fewer ranks, let them go on with it, and add both to ``report``."""
    survivors = arguments.target_dp * arguments.target_mp
    before = _layouts(model)
    # The group files are those of the ranks that saved the checkpoint.
    del os.environ["GROUP_INFO_FILE"]
    moved = model.reshard(
        job.make_network(arguments.target_dp, arguments.target_mp),
        ranks=survivors,
        enable_parallel_optimizer=False,
        strategy_ckpt_save_file=str(arguments.out / "dst_strategy.ckpt") if world.current().rank == 0 else "",
    )
    report |= {"bytes_moved": moved.bytes_moved, "bytes_kept": moved.bytes_kept, "reshard_seconds": moved.seconds}
    if model.active:
        report["slices"] = _slices(before, _layouts(model))
        _say(f"moved {moved.bytes_moved / 1e6:.1f} MB in {moved.seconds:.2f} s; {survivors} ranks go on")
    # Those that do not go on wait in it.
    phase = job.train(model, arguments.steps + arguments.more_steps, [ProgressMonitor()])
    report["phases"].append(phase | {"data_parallel": arguments.target_dp, "model_parallel": arguments.target_mp})


def _layouts(model: Model) -> dict[str, Layout]:
    """Return the layouts of the matrices that are trained."""
    trained = model.train_network.trainable_params()
    return {one.name: one.layout for one in trained if one.layout is not None and len(one.shape) == 2}


def _slices(before: dict[str, Layout], after: dict[str, Layout]) -> list[dict[str, Any]]:
    """Return each rank's box before and after, of the largest matrix of each way to be cut, the finest cut first."""
    ways: dict[object, str] = {}
    for name in sorted(before, key=lambda name: -math.prod(before[name].global_shape)):
        ways.setdefault((before[name].cuts, after[name].cuts), name)
    finest = sorted(ways.values(), key=lambda name: -math.prod(before[name].cuts))
    return [
        {
            "name": name,
            "shape": before[name].global_shape,
            "before": _boxes(before[name]),
            "after": _boxes(after[name]),
        }
        for name in finest[:_SHOWN_PARAMETERS]
    ]


def _boxes(layout: Layout) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(box.start, box.stop) for box in map(layout.box, range(layout.devices.size))]


def _say(words: str) -> None:
    if world.current().rank == 0:
        print(words, flush=True)


def main() -> None:
    """Run the job and let rank 0 write its report."""
    arguments = make_parser().parse_args()
    report = run(arguments)
    if world.current().rank == 0:
        write_durably(arguments.out / "report.json", json.dumps(report).encode())


if __name__ == "__main__":
    main()
