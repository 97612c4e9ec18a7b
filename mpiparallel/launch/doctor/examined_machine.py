"""The machine that is examined: its files of facts, its environment, and children that try things on it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path

from mpiparallel.dataclass import dataclass
from mpiparallel.launch.doctor.child import ChildAnswer, ask

_MOST_CHARACTERS = 4_000_000
# By these a process would take itself for a rank of the job around it.
_RANK_PREFIXES = (
    *(
        "MPI_LOCAL",
        "MPIPARALLEL_",
        "OMPI_COMM_",
        "OMPI_FILE_",
        "OMPI_UNIVERSE_",
        "PMI_",
        "PMIX_",
        "PRTE_LAUNCHED",
        "RANK_",
    ),
    *("SLURM_LOCALID", "SLURM_PROCID", "SLURM_STEP_"),
)
_NOT_OF_A_RANK = ("PMIX_MCA_",)


@dataclass(frozen=True)
class MpiLibrary:
    """The MPI that a job would get: vendor, library and launcher, or why there is none; the file of the library."""

    vendor: str = ""
    library: str = ""
    launcher: str = ""
    failure: str = ""
    file: str = ""


@dataclass(frozen=True)
class ExaminedMachine:
    """A machine that is to run ``ranks`` ranks, with logs and checkpoints in the two folders.

    ``variables`` is the environment that a job would be started with, ``cores`` the numbers of those that this process
    may run on. ``root`` is where ``proc`` and ``sys`` are found, ``packages`` where Python finds what is installed.
    ``patience`` are the seconds that a child may take where nothing else is said.
    """

    variables: Mapping[str, str]
    ranks: int
    log_dir: Path
    checkpoint_dir: Path
    cores: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))
    python: str = sys.executable
    prefix: Path = Path(sys.prefix)
    packages: tuple[str, ...] = tuple(sys.path)
    user: int = field(default_factory=os.geteuid)
    root: Path = Path("/")
    patience: float = 10.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def text(self, path: str) -> str:
        """Return the text of a file of facts such as ``proc/self/limits``, empty where there is none."""
        try:
            with (self.root / path).open(encoding="utf-8", errors="replace") as file:
                return file.read(_MOST_CHARACTERS)
        except OSError:
            return ""

    def ask(self, *argv: str, seconds: float | None = None) -> ChildAnswer:
        """Return what the program ``argv`` says, started as it would be outside any job."""
        variables = {name: value for name, value in self.variables.items() if not _is_of_a_rank(name)}
        return ask(argv, variables, self.patience if seconds is None else seconds)

    def probe(self, name: str, *arguments: str, seconds: float | None = None) -> ChildAnswer:
        """Return what the program ``name`` of ``doctor/probes`` says in a Python of its own."""
        return self.ask(self.python, "-m", f"mpiparallel.launch.doctor.probes.{name}", *arguments, seconds=seconds)

    @property
    def mpi(self) -> MpiLibrary:
        """The MPI library and its launcher; asked for once."""
        with self._lock:
            return self._mpi

    @cached_property
    def _mpi(self) -> MpiLibrary:
        answer = self.probe("launcher")
        if not answer.facts:
            return MpiLibrary(failure=f"asking mpi4py for its MPI {answer.complaint}")
        library = MpiLibrary(**answer.facts)
        return library if library.failure else replace(library, file=self.probe("mpi_library").facts.get("file", ""))


def _is_of_a_rank(name: str) -> bool:
    return name.startswith(_RANK_PREFIXES) and not name.startswith(_NOT_OF_A_RANK)
