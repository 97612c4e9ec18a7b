"""Waiting until MPI has started on all ranks, which MPI_Init of Open MPI 5 does not.

There a rank leaves MPI_Init as soon as all have come to its last barrier. One that is still on its way out crashes
where a message reaches it by then: https://github.com/open-mpi/ompi/issues/12495. A second barrier of PMIx, which sends
no messages of MPI, holds the first ones back.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

from mpiparallel.communication.mpi.library import MPI


def wait_for_all_starts() -> None:
    """Return when MPI has started on all ranks that were started together, which all call this; else at once."""
    name, (major, *_) = MPI.get_vendor()
    if name != "Open MPI" or major < 5:
        return
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
        path = next(line[line.index("/") :] for line in lines if "/libpmix.so" in line)
        fence = getattr(ctypes.CDLL(path), "PMIx_Fence", None)
        if fence is not None:
            # Of all processes of the job, with nothing to say. Where it cannot be, MPI would have failed to start.
            fence(None, ctypes.c_size_t(0), None, ctypes.c_size_t(0))
