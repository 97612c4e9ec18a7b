"""Parents and children among processes, as the kernel has them: their names and users do not matter."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from mpiparallel.cluster.exit_codes import SIGNALLED

_DEAD = "ZX"
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies (prctl(2), ``PR_SET_PDEATHSIG``); Linux only.

    It ends at once if the parent dies meanwhile. Of one that was dead before, the kernel tells nothing.
    """
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(SIGNALLED + signal.SIGKILL)


def children_of(process: int) -> list[int]:
    """Return the living children of ``process``, those included that it has inherited."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_child(path, process)]


def kill_children(process: int) -> None:
    """Kill the children of a ``process`` that may reap them itself; none of its grandchildren, and nobody else."""
    for child in children_of(process):
        with suppress(OSError):
            # Its number may be another process's by now. What this is open for stays the same one.
            descriptor = os.pidfd_open(child)
            try:
                if _is_child(Path(f"/proc/{child}"), process):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def _is_child(path: Path, process: int) -> bool:
    try:
        state, parent = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return False
    return int(parent) == process and state not in _DEAD
