"""What growing a world of MPI ranks needs and refuses; a rank that is there plays the process that joins."""

from __future__ import annotations

import atexit
import io
import os
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication import spawned_processes
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone
from mpiparallel.errors import CommunicationError

LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")


class Launcher:
    """An MPI communicator of which other processes are started by ``spawn``."""

    def __init__(self, comm: Any, spawn: Any) -> None:
        self._comm = comm
        self.Spawn = spawn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comm, name)


def growth_that_cannot_be_is_refused_on_all_ranks(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication import mpi

    with pytest.raises(CommunicationError, match="cannot start processes; start the job with mpirun"):
        mpi.grow(alone(), 1)
    with pytest.raises(CommunicationError, match="0 processes cannot be started; pass 1 or more"):
        mpi.grow(world, 0)
    with pytest.raises(CommunicationError, match=f"ranks ask for 1 to {world.size} processes"):
        mpi.grow(world, 1 + world.rank)
    for name in LAUNCHERS if world.rank == 1 else ():
        patch.delenv(name, raising=False)
    with pytest.raises(CommunicationError, match=r"^rank 1: grow: this process was started without a launcher"):
        mpi.grow(world, 1)


def a_launcher_that_starts_nothing_is_told_of_at_once(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication import mpi
    from mpiparallel.communication.mpi.library import MPI

    asked = []

    def spawn(command: str, given: list[str], count: int, info: MPI.Info) -> None:
        asked.append((command, given, count, info.Get("wdir"), info.Get("map_by"), info.Get("bind_to")))
        raise MPI.Exception(MPI.ERR_SPAWN)

    comm, world.comm = world.comm, Launcher(world.comm, spawn)
    with pytest.raises(CommunicationError, match=r"the launcher did not start 2 processes .* begin with as many ranks"):
        mpi.grow(world, 2)
    world.comm = comm
    program = [sys.executable, *sys.orig_argv[1:]]
    command, given, *others = asked[0]
    assert [command, *given] == [program[0], "-X", "mpiparallel_joins", *program[1:]]
    assert others == [2, str(spawned_processes.FOLDER), "slot:oversubscribe", "none"]
    # Nothing is left that would end the job later.
    for timer in [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]:
        timer.join(10.0)
        assert not timer.is_alive()


def a_job_ends_where_started_processes_do_not_join_in_time(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import spawning

    said, told, ended = io.StringIO(), [], threading.Event()

    def end(code: int) -> None:
        told.append(code)
        ended.set()

    patch.setattr(sys, "stderr", said)
    patch.setattr(spawning, "let_last_words_through", lambda: told.append(said.getvalue()))
    patch.setattr(os, "_exit", end)
    with spawning._patience(2, 0.01):
        assert ended.wait(60.0)
    words, code = told
    assert code == 1
    assert "2 processes were to join, but did not call mpiparallel.communication.init() within 0.01 s" in words


def ranks_of_the_beginning_join_the_world_of_all(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication import mpi

    joined = mpi.joined_world()
    assert (joined.rank, joined.size) == (world.rank, world.size)
    joined.free()


def processes_that_join_follow_the_ranks_that_were_there(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication import mpi
    from mpiparallel.communication.mpi import spawning
    from mpiparallel.communication.mpi.library import MPI

    last = world.size - 1
    freed_at_exit: list[object] = []
    patch.setattr(atexit, "register", freed_at_exit.append)
    if world.rank < last:
        old: Any = world.world_of(range(last))
        comm = old.comm
        old.comm = Launcher(comm, lambda *_: comm.Create_intercomm(0, MPI.COMM_WORLD, last))
        union = mpi.grow(old, 1)
        old.comm = comm
        old.free()
    else:
        parent = MPI.COMM_SELF.Create_intercomm(0, MPI.COMM_WORLD, 0)
        known = {"COMM_NULL": MPI.COMM_NULL, "Comm": SimpleNamespace(Get_parent=lambda: parent)}
        patch.setattr(spawning, "MPI", SimpleNamespace(**known))
        union = mpi.joined_world()
        assert parent == MPI.COMM_NULL
    assert (union.rank, union.ranks) == (world.rank, world.ranks)
    numbers = np.empty(union.size, np.int64)
    union.all_gather(np.array(world.rank), numbers)
    assert tuple(numbers.tolist()) == world.ranks
    # Open MPI may crash or hang at the end where it is not freed.
    assert freed_at_exit == [union.free]
    union.free()


def ranks_that_rest_wake_when_the_last_one_has_come(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    if world.rank == 0:
        time.sleep(0.02)
    come = np.array(time.monotonic())
    world.rest()
    gone = np.array(time.monotonic())
    # One clock for all, as they run on one host.
    world.all_reduce(come, "max")
    world.all_reduce(gone, "min")
    assert come <= gone


GROWTH_CLAIMS = (
    growth_that_cannot_be_is_refused_on_all_ranks,
    a_launcher_that_starts_nothing_is_told_of_at_once,
    a_job_ends_where_started_processes_do_not_join_in_time,
    ranks_of_the_beginning_join_the_world_of_all,
    processes_that_join_follow_the_ranks_that_were_there,
    ranks_that_rest_wake_when_the_last_one_has_come,
)
