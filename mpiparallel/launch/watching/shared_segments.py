"""Shared memory that ranks leave behind when they are killed with their mpirun: MPI gives it back at its end only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

FOLDER = Path("/dev/shm")
# MPICH; Open MPI 5, Open MPI 4; UCX, which either may use.
BEGINNINGS = ("mpich_shm_", "sm_segment.", "vader_segment.", "ucx_shm_posix_")


class LeftSegments:
    """The segments of ranks on this host, noted while they live, and deleted when nobody has them any more.

    It is for those that a rank may open late, Open MPI's and UCX's, on the launcher's host. MPICH's lose their names as
    soon as all have them (``communication.mpi.segments``). Only what a process had that was noted is ever deleted.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._noted: dict[int, frozenset[str]] = {}

    def note(self, processes: Iterable[int]) -> None:
        """Note what these processes have; each is looked at until it has something."""
        for process in processes:
            if process not in self._noted:
                found = frozenset(_mapped(Path(f"/proc/{process}/maps"), self._folder))
                if found:
                    self._noted[process] = found

    def remove(self) -> list[Path]:
        """Delete what was noted, but what some process still has; return what was deleted."""
        noted = frozenset().union(*self._noted.values())
        left = [path for path in left_segments(self._folder) if path.name in noted] if noted else []
        for path in left:
            path.unlink(missing_ok=True)
        return left


def left_segments(folder: Path = FOLDER, user: int | None = None) -> list[Path]:
    """Return the segments of MPI in ``folder`` that are of ``user``, or of this one, and that no process has.

    No process that this one can see, that is: ranks in another container may share the folder.
    """
    owner = os.geteuid() if user is None else user
    with suppress(OSError):
        left = {path.name for path in folder.iterdir() if path.name.startswith(BEGINNINGS) and _is_of(owner, path)}
        if left:
            for maps in Path("/proc").glob("[0-9]*/maps"):
                left.difference_update(_mapped(maps, folder))
        return [folder / name for name in sorted(left)]
    return []


def _mapped(maps: Path, folder: Path) -> Iterator[str]:
    """Yield the segments of MPI in ``folder`` that a process has, as the kernel lists them."""
    beginning = f" {folder}/"
    with suppress(OSError):
        for line in maps.read_text(errors="replace").splitlines():
            name = line.partition(beginning)[2]
            if name.startswith(BEGINNINGS) and "/" not in name:
                yield name


def _is_of(user: int, path: Path) -> bool:
    with suppress(OSError):
        status = path.lstat()
        return stat.S_ISREG(status.st_mode) and status.st_uid == user
    return False
