"""What it costs a training step that every rank is watched: recorder, fingerprints and watchdog, on and off in turns.

    mpiparallel run -n 2 benchmarks/watching.py
    mpiparallel run -n 8 benchmarks/watching.py --dp 4 --mp 2 --batch_size 64

It trains the tutorials' Transformer. In turns, blocks of steps run as they are, and with collectives that are not
written down, steps that do not begin with a comparison, and no watchdog. The medians of their steps are compared, and
a pair of blocks without any difference between them says how much of that is chance.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits
from training_step.workloads import WORKLOADS

from mpiparallel import context
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.cluster.flight.watchdog import Watchdog
from mpiparallel.communication import init, world
from mpiparallel.communication.mpi.collective_monitor import CollectiveCall, CollectiveMonitor
from mpiparallel.compile.bind import CompiledGraph
from mpiparallel.train import Model

SIZES = {"d_model": 256, "num_heads": 8, "encoder_layers": 1, "decoder_layers": 1}


class _Unwritten(CollectiveCall):
    """A call that is not written down."""

    def __init__(self) -> None:
        super().__init__(FlightRecorder(None, 0, 1), 0, 0)

    def __exit__(self, *error: object) -> None:
        pass

    def going_on(self) -> None:
        pass

    def ended_by(self, end: Any) -> Any:
        return end


@contextmanager
def unwatched() -> Iterator[None]:
    """Let this rank's collectives be neither written down nor compared in a ``with`` block."""
    unwritten = _Unwritten()

    def enter(log: CollectiveMonitor, *call: Any, **details: Any) -> CollectiveCall:
        return unwritten

    run = CompiledGraph.run

    def run_alone(compiled: CompiledGraph, *inputs: Any) -> Any:
        meets, compiled.meets = compiled.meets, None
        try:
            return run(compiled, *inputs)
        finally:
            compiled.meets = meets

    with (
        mock.patch.object(CollectiveMonitor, "entered", enter),
        mock.patch.object(CollectiveMonitor, "compared", enter),
        mock.patch.object(CompiledGraph, "run", run_alone),
    ):
        yield


@contextmanager
def watchdog() -> Iterator[None]:
    """Let a watchdog look at this process in a ``with`` block, as it does at each rank."""
    watching = Watchdog(FlightRecorder(None, 0, 1), 600.0, lambda diagnosis: None, sys.stderr.fileno())
    watching.start()
    try:
        yield
    finally:
        watching.stop()


def block(model: Model, batch: list[np.ndarray[Any, Any]], steps: int) -> list[float]:
    """Return the seconds of each of some steps."""
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        model.run_step(batch)
        seconds.append(time.perf_counter() - start)
    return seconds


def parse() -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (*SIZES.items(), ("batch_size", 32), ("src_len", 10), ("tgt_len", 10), ("vocab_size", 4000)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"(default {value})")
    parser.add_argument("--dp", type=int, default=0, help="parts of the batch (default: as many as ranks)")
    parser.add_argument("--mp", type=int, default=1, help="parts of heads, layers and vocabulary (default 1)")
    parser.add_argument("--repetitions", type=int, default=20, help="blocks of each kind (default 20)")
    parser.add_argument("--block", type=int, default=10, help="steps in a block (default 10)")
    flags = parser.parse_args()
    flags.mode, flags.peer = "semi_auto_parallel", None
    return flags


def main() -> None:
    """Measure on every rank; rank 0 reports."""
    flags = parse()
    init()
    ranks = world.current()
    flags.dp = flags.dp or ranks.size // flags.mp
    if ranks.size != flags.dp * flags.mp:
        raise SystemExit(f"--dp {flags.dp} --mp {flags.mp} needs {flags.dp * flags.mp} ranks; there are {ranks.size}")
    context.set_seed(1)
    context.set_auto_parallel_context(parallel_mode=flags.mode, gradients_mean=True, full_batch=True)
    workload = WORKLOADS["translation"]
    model, batch = workload.make_model(flags), workload.make_batch(flags, flags.batch_size)
    kinds = {"watched": watchdog, "unwatched": unwatched, "unwatched again": unwatched}
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    with threadpool_limits(1):
        block(model, batch, 3)
        for turn in range(flags.repetitions):
            order = list(kinds) if turn % 2 else list(kinds)[::-1]
            for kind in order:
                ranks.barrier()
                with kinds[kind]():
                    seconds[kind] += block(model, batch, flags.block)
    if ranks.rank == 0:
        medians = {kind: statistics.median(times) for kind, times in seconds.items()}
        base = medians["unwatched"]
        print(f"{ranks.library}, {ranks.size} ranks, dp{flags.dp} x mp{flags.mp}; median of {len(seconds['watched'])}")
        for kind, median in medians.items():
            print(f"{kind:16} {1e3 * median:9.3f} ms/step  {100 * (median / base - 1):+6.2f} %")
    ranks.rest()


if __name__ == "__main__":
    main()
