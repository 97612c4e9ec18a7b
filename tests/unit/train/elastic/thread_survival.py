"""Thread ranks that die: a stand-in for the MPI library by which the others find each other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import RankFailureError
from mpiparallel.train import training_session
from tests.conformance.patience import SECONDS

SURVIVAL = "mpiparallel.communication.mpi.survival"


class Death(BaseException):
    """Ends a rank that dies."""


class ThreadSurvival(ModuleType):
    """What ``survival`` of MPI does, for thread ranks: ``dead`` are known to all, and others die ``meanwhile``."""

    def __init__(self) -> None:
        super().__init__(SURVIVAL)
        self.dead: set[int] = set()
        self.meanwhile: set[int] = set()
        self._met: set[int] = set()
        self._told: set[int] = set()
        self._has_happened = threading.Event()
        self.revoked: list[tuple[int, ...]] = []
        self.given_up: list[str] = []

    def die(self, number: int, dead: Sequence[int]) -> None:
        """Let some ranks die, and the others find out; each rank calls it."""
        self.dead.update(dead)
        self._told.add(number)
        self._has_happened.set()
        if number in dead:
            raise Death
        raise RankFailureError("a rank has died")

    def has_happened_to(self, number: int) -> bool:
        """Return whether a rank has died or heard of a death."""
        return number in self._told

    def wait(self, number: int) -> None:
        """As a rank that does nothing, hear of the first death."""
        self._has_happened.wait(SECONDS)
        self.die(number, sorted(self.dead))

    def survivors(self, communicator: Communicator) -> Communicator:
        """Return the communicator of the members that live; those that die meanwhile are found now."""
        number = communicator.ranks[communicator.rank]
        if self.meanwhile and number not in self._met:
            self._met.add(number)
            self.die(number, sorted(self.meanwhile))
        return self._living(communicator)

    def as_world(self, communicator: Communicator) -> Communicator:
        """Return a world of the members."""
        return communicator.world_of(communicator.ranks)

    def revoke(self, communicator: Communicator) -> None:
        """Note that all calls on a communicator are to fail."""
        self.revoked.append(communicator.ranks)

    def agreed(self, communicator: Communicator, flag: bool, *, all_live: bool = True) -> bool:
        """Return whether all living members have given a true flag and, if asked, all live."""
        living = self._living(communicator)
        return not living.any_true(not flag or (all_live and living.size < communicator.size))

    def give_up(self, why: str) -> None:
        """Note why the job is to end."""
        self.given_up.append(why)

    def _living(self, communicator: Communicator) -> Communicator:
        return communicator.group([rank for rank in communicator.ranks if rank not in self.dead])


def once(action: Callable[[], Any]) -> Callable[[], Any]:
    """Return what acts the first time that it is called."""
    left = [action]
    return lambda: left and left.pop()()


def thread_survival(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a stand-in for the MPI library; trainings go on without ranks that die until ``monkeypatch`` ends."""
    library, package = ThreadSurvival(), ModuleType(SURVIVAL.rpartition(".")[0])
    package.survival = library  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(sys.modules, SURVIVAL, library)
    monkeypatch.setattr(training_session, "is_wanted", lambda communicator: communicator.size > 1)
    return library
