"""Shared memory that killed ranks leave: MPI libraries give theirs back in MPI_Finalize only, MPICH some 4 MB a job."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FOLDER = Path("/dev/shm")
# MPICH; Open MPI 5, Open MPI 4; UCX, which either may use.
_NAME = re.compile(r"mpich_shm_|sm_segment\.|vader_segment\.|ucx_shm_posix_")


def remove_left_segments(since: float, folder: Path = FOLDER) -> list[Path]:
    """Delete what MPI libraries have made in ``folder`` from ``since`` on, if no process has it any more; return that.

    ``since`` is in seconds since 1970. Only files of this user count. Where there is no /proc, nothing is deleted.
    """
    found = {str(path): path for path in _segments(since, folder)}
    if not found or not Path("/proc/self/maps").exists():
        return []
    left = sorted(found.keys() - set(_mapped(folder)))
    for name in left:
        found[name].unlink(missing_ok=True)
    return [found[name] for name in left]


def _segments(since: float, folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        for path in folder.iterdir():
            if _NAME.match(path.name) is None:
                continue
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_ctime >= since:
                    yield path


def _mapped(folder: Path) -> Iterator[str]:
    """Yield the files of ``folder`` that processes have in their memory; those of other users cannot be ours."""
    beginning = f"{folder}/"
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            for line in maps.read_text(errors="replace").splitlines():
                name = line.partition(beginning)[2]
                if name:
                    yield f"{beginning}{name}"
