"""Thread ranks that look like those of mpi4py, for tests that start no MPI."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

from mpiparallel import communication
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads.communicator import ThreadCommunicator


class Mpi4pyRanks(ModuleType):
    """Stands for the package that starts MPI; ``freed`` counts the communicators that it made and that are freed."""

    def __init__(self) -> None:
        super().__init__("mpiparallel.communication.mpi")
        self.freed = 0
        self._lock = threading.Lock()

    def of(self, ranks: Communicator) -> object:
        """Return what a program would give that has its ranks from mpi4py."""
        return _Intracomm(ranks)

    def communicator_of(self, given: object) -> Communicator:
        """Return a communicator of the ranks of another library, to be freed."""
        assert isinstance(given, _Intracomm)
        return given.ranks.world_of(range(given.ranks.size))

    def count(self) -> None:
        """Count one that is freed."""
        with self._lock:
            self.freed += 1


class _Intracomm:
    __module__ = "mpi4py.MPI"

    def __init__(self, ranks: Communicator) -> None:
        self.ranks = ranks


def mpi4py_ranks(monkeypatch: pytest.MonkeyPatch) -> Mpi4pyRanks:
    """Return the stand-in, which is there until ``monkeypatch`` ends."""
    found, free = Mpi4pyRanks(), ThreadCommunicator.free
    monkeypatch.setitem(sys.modules, found.__name__, found)
    monkeypatch.setitem(vars(communication), "mpi", found)
    monkeypatch.setattr(ThreadCommunicator, "free", lambda self: (found.count(), free(self))[1])
    return found
