"""The ways into a world of MPI ranks."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from mpiparallel.communication import abort_hook, occupancy
from mpiparallel.communication.mpi import shared_memory
from mpiparallel.communication.mpi.collective_monitor import fingerprints
from mpiparallel.communication.mpi.communicator import MpiCommunicator
from mpiparallel.communication.mpi.library import MPI, abort_job, reporting
from mpiparallel.communication.mpi.mpi_world import MpiWorld, StepCheck
from mpiparallel.communication.mpi.process_recorder import own_number, process_faults, process_recorder
from mpiparallel.communication.mpi.start_barrier import wait_for_all_starts
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError

# Open MPI before 6 counts bytes and displacements of one call in 32 bits.
_LARGEST_MESSAGE = 1 << 30
_SHARED_MEMORY = "/dev/shm/mpich_shm_"


def world(largest_message: int = _LARGEST_MESSAGE) -> Communicator:
    """Return the communicator of all MPI ranks, over a duplicate of ``MPI_COMM_WORLD``; every rank must call it.

    Ranks are those of ``RANK_ID``, which the launcher sets where a rank table orders them; without it, those of MPI.
    Data of more than ``largest_message`` bytes travel in several messages. Whether collectives overlap is what the
    environment of rank 0 says. Raises CommunicationError where it asks for an unknown kind of overlap.
    """
    wait_for_all_starts()
    return opened(_in_rank_order(), largest_message)


@reporting
def communicator_of(comm: Any, largest_message: int = _LARGEST_MESSAGE) -> Communicator:
    """Return a world over a duplicate of an mpi4py intracommunicator; all its ranks call it and keep their numbers.

    ``free`` gives the duplicate back; ``comm`` itself is left alone. Raises CommunicationError for what is no
    intracommunicator.
    """
    if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
        raise CommunicationError(
            f"communicator_of: got {type(comm).__name__}, not an intracommunicator of mpi4py that this rank is in"
        )
    return opened(comm.Dup(), largest_message)


def opened(comm: MPI.Intracomm, largest_message: int = _LARGEST_MESSAGE, *, grown: bool = False) -> Communicator:
    """Return the world over ``comm``, which it takes over; all its ranks call it."""
    ranks = tuple(range(comm.Get_size()))
    recorder, numbers = process_recorder(), _numbers(comm, grown)
    plain = MpiWorld(comm, _hosts(comm), largest_message, recorder, numbers, StepCheck())
    take_names_away()
    communicator = MpiCommunicator(comm, ranks, plain)
    host = communicator.group(communicator.host_ranks)
    crowded = occupancy.is_crowded(communicator, host)
    overlaps = occupancy.agreed(communicator, occupancy.overlaps(host.size < len(ranks)))
    compared = _agreed_fingerprints(communicator)
    can_share = shared_memory.can_share(communicator, host)
    if host is not communicator:
        host.free()
    faults = None if grown else process_faults(numbers[comm.Get_rank()], len(ranks))
    known = replace(
        plain,
        fingerprints=compared,
        faults=faults,
        crowded=crowded,
        overlaps=overlaps,
        can_share=can_share,
        grown=grown,
    )
    return MpiCommunicator(comm, ranks, known).freed_at_exit()


def _in_rank_order() -> MPI.Intracomm:
    # Where RANK_ID is missing, stale or the same on all ranks, MPI's order stays, or breaks the tie.
    return cast(MPI.Intracomm, MPI.COMM_WORLD.Split(0, own_number(MPI.COMM_WORLD.Get_rank())))


def _agreed_fingerprints(communicator: Communicator) -> str:
    """Return how calls are compared, on every rank as the environment of rank 0 says."""
    asked = fingerprints()
    if not occupancy.agreed(communicator, asked != "off"):
        return "off"
    return "strict" if occupancy.agreed(communicator, asked == "strict") else "on"


def _numbers(comm: MPI.Intracomm, grown: bool) -> tuple[int, ...]:
    """Return the number of each rank in the job; processes that were started later follow those that were there."""
    rank = comm.Get_rank()
    numbers = np.empty(comm.Get_size(), np.int64)
    comm.Allgather(np.array([rank if grown else own_number(MPI.COMM_WORLD.Get_rank())]), numbers)
    return tuple(numbers.tolist())


def _hosts(comm: MPI.Intracomm) -> tuple[int, ...]:
    """Return for each rank the lowest one on its host."""
    lowest = np.array([comm.Get_rank()], np.int64)
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    host.Allreduce(MPI.IN_PLACE, lowest, MPI.MIN)
    host.Free()
    hosts = np.empty(comm.Get_size(), np.int64)
    comm.Allgather(lowest, hosts)
    return tuple(hosts.tolist())


def abort_job_on_uncaught_exception() -> None:
    """Let an uncaught exception on any rank print its traceback and end the whole job with status 1."""
    abort_hook.abort_on_uncaught_exception(lambda error: abort_job())


def leave_job(code: int, summary: str) -> None:
    """End all ranks with status ``code`` because of ``summary``, which is printed."""
    print(f"mpiparallel: {summary}; the job ends", file=sys.stderr)
    abort_hook.let_last_words_through()
    abort_job(code)


def take_names_away() -> None:
    """Unlink the segments that this process has mapped; every rank of its host has started MPI by then.

    The memory lives as long as a rank that maps it. MPICH itself unlinks it when MPI ends, and does not mind that it is
    gone. This is for every host and launcher. ``launch/watching/shared_segments.py`` clears away what ranks leave that
    die while MPI starts. It also does so for Open MPI, whose ranks attach to each other's memory later.
    """
    with suppress(OSError):
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
        for path in {line.partition(_SHARED_MEMORY)[2] for line in lines if _SHARED_MEMORY in line}:
            Path(f"{_SHARED_MEMORY}{path}").unlink(missing_ok=True)
