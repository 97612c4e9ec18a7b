"""How long a save that a thread writes holds the training up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from checkpointing.methods import COMMIT, COPY, OURS, START, STEP, STEP_BESIDE, WHOLE, Task, clear
from checkpointing.states import arrays_of
from mpi4py import MPI

from mpiparallel.checkpoint.saving import ShardSave
from mpiparallel.communication import init, world
from mpiparallel.train.persistence.asynchronous_save import AsynchronousSave

_WIDTH = 512
_PRODUCTS = 8


def measure(task: Task, comm: MPI.Intracomm, rounds: int) -> dict[str, Any]:
    """Return the seconds of a copy of the state and of what an asynchronous save makes the training wait, by round."""
    init()
    layouts, folder = task.saved, task.folder_of(OURS)
    arrays = arrays_of(layouts, task.rank)
    buffers = {name: array.copy() for name, array in arrays.items()}
    saving = AsynchronousSave()
    seconds: dict[str, dict[int, float]] = {name: {} for name in (COPY, START, COMMIT, WHOLE, STEP, STEP_BESIDE)}

    def copy() -> None:
        for name, array in arrays.items():
            np.copyto(buffers[name], array)

    def start() -> None:
        once = task.source == "whole"
        saving.start(ShardSave(folder, "net", 1, 1, layouts, world.current(), {}, once), arrays)

    # The first round makes the buffers.
    for index in range(-1, rounds):
        _cleared(task, comm)
        found = {COPY: _timed(comm, copy), STEP: _timed(comm, _step), START: _timed(comm, start)}
        steps = []
        while comm.allreduce(saving.is_writing, MPI.LOR):
            steps.append(_timed(comm, _step))
        found |= {STEP_BESIDE: max(steps, default=0.0), COMMIT: _timed(comm, lambda: saving.commit(world.current()))}
        _cleared(task, comm)

        def whole() -> None:
            start()
            saving.commit(world.current())

        found[WHOLE] = _timed(comm, whole)
        if index >= 0:
            for name, value in found.items():
                if value:
                    seconds[name][index] = value
    return {"seconds": seconds, "methods_left_out": {}}


def _step() -> None:
    matrix = np.ones((_WIDTH, _WIDTH), np.float32)
    for _ in range(_PRODUCTS):
        np.matmul(matrix, matrix)


def _cleared(task: Task, comm: MPI.Intracomm) -> None:
    comm.Barrier()
    if task.rank == 0:
        clear(task.folder_of(OURS))
    comm.Barrier()


def _timed(comm: MPI.Intracomm, work: Callable[[], object]) -> float:
    comm.Barrier()
    start = time.perf_counter()
    work()
    end = time.perf_counter()
    seconds: float = comm.allreduce(end, MPI.MAX) - comm.allreduce(start, MPI.MIN)
    return seconds
