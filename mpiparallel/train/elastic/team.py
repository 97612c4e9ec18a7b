"""The ranks of a job: those that train a model, and the spares that wait to be called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiparallel.communication import world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone


class Team:
    """Who trains a model, told from one rank of the job.

    Ranks have the numbers that they have in ``everyone``, all who train or wait; ``ranks`` are those that train, in the
    order of their ranks there. ``number`` is that of this process. ``generation`` counts the changes.
    """

    def __init__(self, everyone: Communicator) -> None:
        self.everyone = everyone
        self.number = everyone.ranks[everyone.rank]
        self.ranks = everyone.ranks
        self.has_left = False
        self.generation = 0
        self._worlds: dict[tuple[int, ...], Communicator] = {}
        self.world = everyone

    @classmethod
    def of_current_world(cls) -> Team:
        """Return the team of all ranks."""
        return cls(world.current() if world.initialised() else alone())

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
        if self.number in leaving:
            self.has_left = True
            return
        if leaving:
            staying = [rank for rank in self.everyone.ranks if rank not in leaving]
            self.everyone = self.everyone.group(staying)
        self.world = self._world() if self.active else self.everyone
        if world.initialised():
            world.set_current(self.world)

    def _world(self) -> Communicator:
        """Return the world of those who train, the one it was where they have trained together before."""
        if self.ranks == self.everyone.ranks == tuple(range(self.everyone.size)):
            return self.everyone
        if self.ranks not in self._worlds:
            self._worlds[self.ranks] = self.everyone.world_of(self.ranks)
        return self._worlds[self.ranks]


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
