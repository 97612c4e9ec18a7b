"""The ranks of a job: those that train a model, and the spares that wait to be called."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextvars import ContextVar

import numpy as np

from mpiparallel.communication import joined, world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError
from mpiparallel.train.object_collectives import world_or_alone


class Membership:
    """Who trains a model, told from one rank of the job.

    Ranks have the numbers that they have in ``everyone``, all who train or wait. ``ranks`` are those that train, in the
    order of their ranks there. ``number`` is that of this process. ``generation`` counts the changes.
    """

    def __init__(self, everyone: Communicator) -> None:
        self.everyone = everyone
        self.number = everyone.ranks[everyone.rank]
        self.ranks = everyone.ranks
        self.has_left = False
        self.generation = 0
        self._parts_asleep = False
        self._worlds: dict[tuple[int, ...], Communicator] = {}
        self.world = everyone

    @classmethod
    def of_current_world(cls) -> Membership:
        """Return the membership of all ranks."""
        return cls(world_or_alone())

    @property
    def active(self) -> bool:
        """Whether this rank trains."""
        return self.number in self.ranks and not self.has_left

    @property
    def leads(self) -> bool:
        """Whether this rank speaks to the spares."""
        return self.active and self.number == self.ranks[0]

    @property
    def spares(self) -> tuple[int, ...]:
        """The ranks that wait."""
        return tuple(rank for rank in self.everyone.ranks if rank not in self.ranks)

    def tell(self, message: bytes) -> None:
        """Wake the spares and tell them something; on the rank that leads."""
        if self.spares:
            _broadcast(message, *self._bench())

    def hear(self) -> bytes:
        """Sleep until the leader tells something; on spares."""
        return _broadcast(b"", *self._bench())

    def _bench(self) -> tuple[Communicator, int]:
        """Return the communicator of the leader and the spares, and which member the leader is."""
        members = sorted((self.ranks[0], *self.spares))
        return self.everyone.group(members), members.index(self.ranks[0])

    def switch(self, ranks: Sequence[int], leaving: Sequence[int]) -> None:
        """Let ``ranks`` train from now on, and ``leaving`` go their own ways; everyone calls it together."""
        self.ranks = tuple(ranks)
        self.generation += 1
        if leaving and not self._parts_asleep:
            self._parts_asleep = True
            part_asleep(self.everyone)
        if self.number in leaving:
            self.has_left = True
            return
        if leaving:
            staying = [rank for rank in self.everyone.ranks if rank not in leaving]
            self.everyone = self.everyone.group(staying)
        self.world = self._world() if self.active else self.everyone
        if self.spares and (self.leads or not self.active):
            # Made here, because those who came first to make it would not wait asleep.
            self._bench()
        if world.initialised():
            world.set_current(self.world)

    def grow(self, count: int) -> None:
        """Start processes that wait as spares, with the next numbers; everyone calls it, and then ``meet``.

        Raises CommunicationError on everyone where the launcher or the library cannot.
        """
        if self.everyone.library == "threads":
            raise CommunicationError("Model.reshard: thread ranks cannot start processes; start the job with mpirun")
        # Not above: importing it starts MPI.
        from mpiparallel.communication import mpi

        self.everyone = mpi.grow(self.everyone, count)
        self._parts_asleep = False

    def meet(self, message: bytes = b"") -> bytes:
        """Return the message of the one rank that has one, on all ranks, even those that do not know yet which rank
        leads.
        """
        self.everyone.rest()
        leader = np.array(self.everyone.rank if message else -1, np.int64)
        self.everyone.all_reduce(leader, "max")
        return _broadcast(message, self.everyone, int(leader))

    def join(self, training: Sequence[int]) -> None:
        """Be a spare of these ranks."""
        self.ranks = tuple(training)

    def survive(self) -> None:
        """Let those that have died be no part of everyone any more; all others call it together, in no other call.

        What was made of everyone before is void. Raises RankFailureError where more die meanwhile: call it again.
        """
        # Not above: importing it starts MPI.
        from mpiparallel.communication.mpi import survival

        self.everyone = survival.survivors(self.everyone)
        self._worlds.clear()
        self._worlds[self.everyone.ranks] = survival.as_world(self.everyone)

    def make_ready(self, ranks: Sequence[int]) -> None:
        """Make now, together, what ``switch`` to these ranks would have to make."""
        leader, spares = ranks[0], [rank for rank in self.everyone.ranks if rank not in ranks]
        if self.number in ranks and tuple(ranks) not in self._worlds:
            self._worlds[tuple(ranks)] = self.everyone.world_of(ranks)
        if spares and self.number in (leader, *spares):
            self.everyone.group(sorted((leader, *spares)))

    def _world(self) -> Communicator:
        """Return the communicator of the training ranks, the same one again if they have trained together before."""
        if self.ranks == self.everyone.ranks == tuple(range(self.everyone.size)):
            return self.everyone
        if self.ranks not in self._worlds:
            self._worlds[self.ranks] = self.everyone.world_of(self.ranks)
        return self._worlds[self.ranks]


_HAS_MET: ContextVar[bool] = ContextVar("met those that started this process", default=False)


def is_awaited() -> bool:
    """Tell, once, whether this process was started by ranks that train, and wait for it now."""
    awaited = joined() and world.initialised() and not _HAS_MET.get()
    _HAS_MET.set(True)
    return awaited


def part_asleep(communicator: Communicator) -> None:
    """Let the processes of a communicator end together, those that come first asleep; all call it together.

    MPI ends on all of them together, and who is there first would take up a core until then.
    """
    if communicator.library != "threads":
        atexit.register(communicator.world_of(communicator.ranks).rest)


def _broadcast(message: bytes, communicator: Communicator, root: int) -> bytes:
    """Let all members sleep until the root is there, and return its message."""
    communicator.rest()
    length = np.array(len(message), np.int64)
    communicator.broadcast(length, root)
    content = np.zeros(int(length), np.uint8)
    if communicator.rank == root:
        content[:] = np.frombuffer(message, np.uint8)
    communicator.broadcast(content, root)
    return content.tobytes()
