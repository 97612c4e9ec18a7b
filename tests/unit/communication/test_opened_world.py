"""Which world ``init`` opens: that of MPI, or that of a rank alone where nobody has started more; and who ends it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mpiparallel import communication
from mpiparallel.communication import gathering, init, management, world
from mpiparallel.communication.threads import alone
from mpiparallel.errors import CommunicationError

_PLACES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "RANK_ID", "RANK_TABLE_FILE")
MPI = "mpiparallel.communication.mpi"


class Library(ModuleType):
    """Stands for MPI with a world of so many ranks; keeps what is done to its job."""

    def __init__(self, size: int) -> None:
        super().__init__(MPI)
        self.size = size
        self.done: list[Any] = []

    def world(self) -> Any:
        return SimpleNamespace(name="world", size=self.size, host_ranks=range(self.size))

    def joined_world(self) -> Any:
        return SimpleNamespace(name="joined world", size=self.size, host_ranks=range(self.size))

    def abort_job_on_uncaught_exception(self) -> None:
        self.done.append("abort by MPI")

    def leave_job(self, code: int, words: str) -> None:
        """Leave it."""

    def watch_this_rank(self) -> None:
        self.done.append("watched")


class NoLibrary(importlib.abc.MetaPathFinder):
    """Fails as the import of MPI does where there is no library."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == MPI:
            raise CommunicationError("MPI cannot be loaded")
        return None


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in _PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delattr(communication, "mpi", raising=False)
    monkeypatch.setattr(management, "heed_preemption", lambda: None)
    return monkeypatch


def opened(monkeypatch: pytest.MonkeyPatch, library: Library | None, tie: Any = None) -> Any:
    """Return the world that ``init`` opens where MPI is so, and let it go again."""
    if library is None:
        monkeypatch.delitem(sys.modules, MPI, raising=False)
        monkeypatch.setattr(sys, "meta_path", [NoLibrary(), *sys.meta_path])
    else:
        monkeypatch.setitem(sys.modules, MPI, library)
        monkeypatch.setattr(communication, "mpi", library, raising=False)
    done = [] if library is None else library.done
    monkeypatch.setattr(gathering, "join_hand_started", lambda: tie)
    monkeypatch.setattr(management, "limit_blas_threads", lambda ranks: done.append(f"{ranks} share the cores"))
    monkeypatch.setattr(management, "end_after_failed_tests", lambda end: done.append(end))
    monkeypatch.setattr(management.abort_hook, "abort_on_uncaught_exception", lambda abort: done.append(abort))
    with world.use(alone()):
        world.set_current(None)
        init()
        return world.current()


def test_ranks_of_mpi_are_watched_and_end_by_mpi(place: pytest.MonkeyPatch) -> None:
    place.setenv("PMI_SIZE", "3")
    library = Library(3)
    assert opened(place, library).name == "world"
    assert library.done == ["abort by MPI", library.leave_job, "watched", "3 share the cores"]


def test_ranks_that_a_shell_has_started_end_by_their_ties(place: pytest.MonkeyPatch) -> None:
    tie = SimpleNamespace(fail=lambda error: None, leave=lambda code, words: None)
    library = Library(3)
    opened(place, library, tie)
    assert library.done == [tie.fail, tie.leave, "watched", "3 share the cores"]


def test_a_process_that_ranks_have_started_opens_the_world_with_them(place: pytest.MonkeyPatch) -> None:
    place.setattr(management, "joined", lambda: True)
    assert opened(place, Library(2)).name == "joined world"


def test_a_process_alone_is_neither_watched_nor_ended(place: pytest.MonkeyPatch) -> None:
    library = Library(1)
    assert opened(place, library).size == 1
    assert library.done == ["1 share the cores"]


@pytest.mark.parametrize(("variable", "size"), [("PMI_SIZE", "1"), ("PMI_SIZE", "none"), ("HOME", "/")])
def test_a_process_alone_needs_no_mpi(variable: str, size: str, place: pytest.MonkeyPatch) -> None:
    place.setenv(variable, size)
    found = opened(place, None)
    assert (found.rank, found.size) == (0, 1)


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_ranks_of_a_launcher_need_mpi_and_the_same_as_it_has(variable: str, place: pytest.MonkeyPatch) -> None:
    place.setenv(variable, "2")
    with pytest.raises(CommunicationError, match="MPI cannot be loaded"):
        opened(place, None)
    place.setattr(sys, "meta_path", [one for one in sys.meta_path if not isinstance(one, NoLibrary)])
    with pytest.raises(
        CommunicationError, match="the launcher started 2 ranks, but the MPI library of this Python sees"
    ):
        opened(place, Library(1))
    assert not world.initialised()


@pytest.mark.parametrize(
    ("tasks", "number", "is_said"),
    [
        ("6", "0", True),
        ("2", "0", True),
        ("1", "0", False),
        ("0", "0", False),
        ("6", "1", False),
        ("many", "0", False),
        ("", "0", False),
    ],
)
def test_the_first_of_several_tasks_of_srun_says_that_each_is_a_world_of_its_own(
    tasks: str, number: str, is_said: bool, place: pytest.MonkeyPatch
) -> None:
    place.setenv("SLURM_STEP_NUM_TASKS", tasks)
    place.setenv("SLURM_PROCID", number)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        opened(place, Library(1))
    told = [str(one.message) for one in said if issubclass(one.category, RuntimeWarning)]
    words = (
        f"init: srun has started {tasks} tasks, but each is a world of its own; if they are to be ranks of one job, "
        "start them with srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)"
    )
    assert told == [words] * is_said
    # It is said of the line that calls init.
    assert [Path(one.filename).name for one in said if str(one.message) == words] == [Path(__file__).name] * is_said
