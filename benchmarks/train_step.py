"""Where the time of a training step goes, and what the same step takes in PyTorch.

Run it on one rank or on several:

    mpiparallel run -n 1 benchmarks/train_step.py
    mpiparallel run -n 4 benchmarks/train_step.py --dp 2 --mp 2
    mpiparallel run -n 1 benchmarks/train_step.py --network resnet50 --image_size 32 --peer torch --block 3
    mpiparallel run -n 2 benchmarks/train_step.py --network encoder --mode data_parallel --dp 2 --peer torch

It trains on random data of a fixed seed. Each repetition times a block of steps as they are, one step with a clock
around each kernel, a plain matrix product, and with ``--peer torch`` a block of steps of the same network in PyTorch,
which runs in a child process of the environment that ``make test-interop`` makes, on several ranks by its
DistributedDataParallel over gloo. All of it has one thread a rank. The fastest of each is reported, for rank 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from training_step.costs import graph_costs
from training_step.peer import TorchPeer, free_port
from training_step.report import CEILING_SIZE, Timings, summarise, table
from training_step.workloads import WORKLOADS

from mpiparallel import context
from mpiparallel.communication import init, world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.context.settings import current_configuration
from mpiparallel.graph.execution.program import Profile
from mpiparallel.train import Model

WARM_UP_STEPS = 2
PEER_PYTHON = Path(__file__).parents[1] / ".venv-torch" / "bin" / "python"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the flags; those not given have the defaults of their network."""
    flags = make_parser().parse_args(arguments)
    for name, value in WORKLOADS[flags.network].defaults.items():
        if getattr(flags, name) is None:
            setattr(flags, name, value)
    return flags


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=WORKLOADS, default="translation", help="what is trained")
    for name, value, meaning in (
        ("d_model", 512, "hidden size; in translation also of the feed-forward layers"),
        ("ffn", 2048, "hidden size of the feed-forward layers of the encoder"),
        ("num_heads", 8, "attention heads"),
        ("encoder_layers", None, "layers of the encoder"),
        ("decoder_layers", 1, "layers of the decoder"),
        ("batch_size", None, "samples in a global batch"),
        ("src_len", None, "tokens of a source sentence"),
        ("tgt_len", 10, "tokens of a target sentence"),
        ("vocab_size", 20000, "words of either language"),
        ("image_size", 32, "height and width of an image, in pixels"),
        ("dp", 1, "parts of the batch"),
        ("mp", 1, "parts of heads, layers and vocabulary"),
        ("repetitions", 10, "how often everything is timed"),
        ("block", 1, "plain steps in a row, of ours and of the peer's"),
        ("top", 12, "operators in the table"),
    ):
        shown = "by network" if value is None else value
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{meaning} (default {shown})")
    parser.add_argument("--mode", choices=("semi_auto_parallel", "data_parallel"), default="semi_auto_parallel")
    parser.add_argument("--parallel_optimizer", action="store_true", help="store weights and moments cut by dp")
    parser.add_argument("--peer", choices=("torch",), help="time the same network there too, without dropout in both")
    parser.add_argument("--peer_python", type=Path, default=PEER_PYTHON, help="the Python that has the peer")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parser.add_argument("--graph", type=Path, help="write the graph that rank 0 runs to this file")
    return parser


def own_samples(flags: argparse.Namespace) -> int:
    """Return how many samples a rank is fed."""
    return flags.batch_size // flags.dp if flags.mode == "data_parallel" else int(flags.batch_size)


def start_peer(flags: argparse.Namespace, ranks: Communicator) -> TorchPeer | None:
    """Return this rank's peer, where one is asked for; the peers of all ranks train together."""
    if flags.peer is None:
        return None
    port = np.array([free_port() if ranks.rank == 0 else 0])
    ranks.broadcast(port, 0)
    peer = {
        "network": flags.network,
        "sizes": WORKLOADS[flags.network].peer_sizes(flags),
        "batch_size": flags.batch_size // ranks.size,
        "rank": ranks.rank,
        "ranks": ranks.size,
        "port": int(port[0]),
    }
    return TorchPeer(flags.peer_python, peer)


def measure(
    model: Model, batch: list[np.ndarray[Any, Any]], flags: argparse.Namespace, peer: TorchPeer | None = None
) -> Timings:
    """Time whole calls of ``run_step``, with and without a profile, the peer's steps, and the ceiling, in turns."""
    timings = Timings()
    x = np.ones((CEILING_SIZE, CEILING_SIZE), np.float32)
    product = np.empty_like(x)

    def timed(profile: Profile | None) -> float:
        model.profile = profile
        start = time.perf_counter()
        model.run_step(batch)
        return time.perf_counter() - start

    for _ in range(WARM_UP_STEPS):
        timed(None)
    for _ in range(flags.repetitions):
        timings.plain += [timed(None) for _ in range(flags.block)]
        profile = Profile()
        timings.profiled.append((timed(profile), profile))
        start = time.perf_counter()
        np.matmul(x, x, out=product)
        timings.product.append(time.perf_counter() - start)
        for variant in peer.variants if peer else ():
            name = f"PyTorch {variant}"
            timings.peers.setdefault(name, []).extend(peer.run(variant, flags.block) if peer else [])
    return timings


def main() -> None:
    """Measure on every rank; rank 0 reports."""
    flags = parse()
    workload = WORKLOADS[flags.network]
    init()
    ranks = world.current()
    if ranks.size != flags.dp * flags.mp:
        raise SystemExit(f"--dp {flags.dp} --mp {flags.mp} needs {flags.dp * flags.mp} ranks; there are {ranks.size}")
    context.set_seed(1)
    context.set_auto_parallel_context(
        parallel_mode=flags.mode, gradients_mean=True, enable_parallel_optimizer=flags.parallel_optimizer
    )
    if flags.mode == "semi_auto_parallel":
        context.set_auto_parallel_context(full_batch=True)
    model, batch = workload.make_model(flags), workload.make_batch(flags, own_samples(flags))
    with threadpool_limits(1):
        graph = local_graph(model.shard(batch).stages[0], current_configuration().rank)
        peer = start_peer(flags, ranks)
        report = summarise(flags, workload.heading(flags), measure(model, batch, flags, peer), graph_costs(graph))
    if peer:
        peer.close()
    if ranks.rank == 0:
        sys.stdout.write(table(report) + "\n")
        if flags.json:
            flags.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        if flags.graph:
            flags.graph.write_text(f"{graph}\n", encoding="utf-8")
    ranks.rest()


if __name__ == "__main__":
    main()
