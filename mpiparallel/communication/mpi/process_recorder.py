"""The flight recorder of this process, which is there before MPI is."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.flight.recorder import FILE_VARIABLE, FlightRecorder
from mpiparallel.communication.fault_injection.fault_schedule import FaultSchedule
from mpiparallel.communication.spawned_processes import joined
from mpiparallel.errors import ConfigurationError


@functools.cache
def process_recorder() -> FlightRecorder:
    """Return the recorder of this process; one that joined a job has no file, for it would take that of another."""
    rank, size = _own_place()
    return FlightRecorder.of_process({} if joined() else os.environ, rank, size)


@functools.cache
def process_faults(rank: int, size: int) -> FaultSchedule | None:
    """Return the faults that are to strike rank ``rank`` of ``size`` on purpose; a process has one schedule for all."""
    return FaultSchedule.of_environment(rank, size) or None


@contextmanager
def starting_mpi() -> Iterator[None]:
    """Write down that MPI is being started in a ``with`` block, where all ranks wait for each other."""
    _, size = _own_place()
    if joined() or FILE_VARIABLE not in os.environ:
        yield
        return
    recorder = process_recorder()
    number = recorder.enter(recorder.group(range(size)), recorder.text("MPI_Init"), 0, 0)
    try:
        yield
    finally:
        recorder.leave(number)


def own_number(rank: int) -> int:
    """Return the number in the job of a process that is ``rank`` in MPI's order: that of ``RANK_ID`` if it has one."""
    named = os.environ.get("RANK_ID", "")
    return int(named) if named.isascii() and named.isdigit() and len(named) < 10 else rank


def _own_place() -> tuple[int, int]:
    try:
        environment = Environment.read()
    except ConfigurationError:
        return 0, 1
    return own_number(environment.rank), environment.size
