"""The shared memory of MPICH, which a job that is killed would leave in /dev/shm until the host is started anew."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_PREFIX = "/dev/shm/mpich_shm_"


def take_names_away() -> None:
    """Unlink the segments that this process has mapped; every rank of its host has started MPI by then.

    The memory lives as long as a rank that maps it. MPICH itself unlinks it when MPI ends, and does not mind that it is
    gone. This is for every host and launcher; ``launch/watching/shared_segments.py`` clears away what ranks leave that
    die while MPI starts, and by Open MPI, whose ranks attach to each other's memory later.
    """
    with suppress(OSError):
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
        for path in {line.partition(_PREFIX)[2] for line in lines if _PREFIX in line}:
            Path(f"{_PREFIX}{path}").unlink(missing_ok=True)
