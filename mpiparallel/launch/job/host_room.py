"""What this host must offer before ranks start on it: without it MPI ends them, with words that name no cause."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mpiparallel.cluster.json_document import shown
from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.host_selection import HostSelection

FILES = 64
"""Files that a process of a job may hold, with ``FILES_A_RANK`` more for each rank.

It was seen that mpirun holds 22 and 3 a rank. With 28 it did not start 2 ranks, with 48 not 8. A rank holds 31, and one
for each peer that it talks to over TCP.
"""
FILES_A_RANK = 8
ENOUGH_FILES = 4096

_MIB = 1 << 20
SHARED_MIB = 6
"""What a rank of MPICH was seen to take of ``/dev/shm``; without 1 MiB it crashes in MPI_Init."""
_LEAST_SHARED_MIB = 1
_SHARED = Path("/dev/shm")


def check_host(
    selection: HostSelection, vendor: str, variables: Mapping[str, str], shared: Path = _SHARED
) -> tuple[str, ...]:
    """Return warnings of what may become too little for the ranks that run here, with ``variables`` as environment.

    Raises LaunchError where it is too little to start them.
    """
    if selection.hosts and not any(host.is_local for host in selection.hosts):
        return ()
    _check_files(selection.local_ranks)
    if vendor == "openmpi":
        _check_temporary_folder(variables)
        return ()
    return _shared_memory(selection.local_ranks, shared)


def enough_files(ranks: int) -> int:
    """Return how many open files a process may need in a job of ``ranks`` ranks on a host; half do not start it."""
    return FILES + FILES_A_RANK * ranks


def _check_files(ranks: int) -> None:
    allowed, least = resource.getrlimit(resource.RLIMIT_NOFILE)[0], enough_files(ranks) // 2
    if allowed != resource.RLIM_INFINITY and allowed < least:
        raise LaunchError(
            f"{allowed} open files are allowed to a process here, but {ranks} ranks need {least}; "
            f"ulimit -n {max(enough_files(ranks), ENOUGH_FILES)}"
        )


def _check_temporary_folder(variables: Mapping[str, str]) -> None:
    """Refuse a folder for temporary files in which mpirun could not make its own."""
    name = next((name for name in ("TMPDIR", "TEMP", "TMP") if variables.get(name)), None)
    folder = Path(variables[name] if name else "/tmp")
    try:
        # mpirun makes the folders that are missing.
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryDirectory(prefix="mpiparallel-", dir=there):
            return
    except OSError as error:
        subject = f"{name}={shown(str(folder))}" if name else str(folder)
        raise LaunchError(
            f"{subject}: {error.strerror}; mpirun keeps its sockets there: export TMPDIR=DIR, a folder that you may "
            "write to, with a short path"
        ) from error


def _shared_memory(ranks: int, shared: Path) -> tuple[str, ...]:
    try:
        status = os.statvfs(shared)
    except OSError:
        return ()
    free = status.f_bavail * status.f_frsize / _MIB
    if free >= SHARED_MIB * ranks:
        return ()
    size = max(1024, 4 * SHARED_MIB * ranks)
    mend = f"mount -o remount,size={size}m {shared}; in a container: --shm-size={size}m"
    if free < _LEAST_SHARED_MIB * ranks:
        raise LaunchError(
            f"{shared} has {free:.1f} MiB free; {ranks} ranks of MPICH need {_LEAST_SHARED_MIB * ranks} MiB there to "
            f"start, and would crash (SIGBUS); {mend}"
        )
    return (
        f"{shared} has {free:.1f} MiB free; {ranks} ranks of MPICH take up to {SHARED_MIB * ranks} MiB there, and "
        f"crash (SIGBUS) when it is full; {mend}",
    )
