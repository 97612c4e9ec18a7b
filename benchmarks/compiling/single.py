"""Cases that one process measures: what compiling costs a rank of many, and what a resume needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from compiling.networks import Batch, Branches, encoder, trained, wide
from compiling.resident import peak, restart_peak

from mpiparallel import Model, context
from mpiparallel.backend.collector_pause import collector_paused
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.context.settings import current_configuration
from mpiparallel.graph.execution.buffer_plan import plan_buffers
from mpiparallel.train import CheckpointConfig, ModelCheckpoint

MODEL_PARALLEL = 4
MATRICES, WIDTH = 4, 2048
Figures = dict[str, float]
Found = TypeVar("Found")


def compile_layers(layers: int, ranks: int) -> Figures:
    """Return the CPU seconds of a Transformer from its cells to the memory plan of rank 0."""
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=ranks)
    return _compile(*encoder(layers, ranks // MODEL_PARALLEL, MODEL_PARALLEL))


def compile_branches(count: int, ranks: int) -> Figures:
    """Return the CPU seconds of branches from their cells to the memory plan of rank 0."""
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=ranks)
    model, data = trained(Branches(count), 64, 2 * ranks)
    return _compile(model, list(next(iter(data.iterate())).values()))


def _compile(model: Model, batch: Batch) -> Figures:
    configuration = current_configuration()
    with collector_paused():  # as it is where a program is made
        sharded, placing = timed(lambda: model.shard(batch, configuration).stages[0])
        graph, localising = timed(lambda: local_graph(sharded, 0))
        _, planning = timed(lambda: plan_buffers(graph))
    return {"trace and place": placing, "local graph": localising, "memory": planning}


def timed(act: Callable[[], Found]) -> tuple[Found, float]:
    """Return what a call returns, and its CPU seconds."""
    started = time.process_time()
    found = act()
    return found, time.process_time() - started


def train_and_save(folder: str) -> Figures:
    """Return the resident memory that the steps of a training add at most; its checkpoint goes to ``folder``."""
    return run_world(1, lambda communicator: _train_and_save(Path(folder)))[0]


def _train_and_save(folder: Path) -> Figures:
    model, data = trained(wide(MATRICES, WIDTH), WIDTH, 4)
    before = restart_peak()
    model.train(1, data)
    found = {"MB": (peak() - before) / 1e6}
    model.train(1, data, ModelCheckpoint("line", folder, CheckpointConfig(save_checkpoint_steps=2)))
    return found


def resume(folder: str) -> Figures:
    """Return the resident memory that a resume from ``folder`` adds at most."""
    return run_world(1, lambda communicator: _resume(Path(folder)))[0]


def _resume(folder: Path) -> Figures:
    model, data = trained(wide(MATRICES, WIDTH), WIDTH, 4)
    before = restart_peak()
    model.resume(folder, data)
    return {"MB": (peak() - before) / 1e6}
