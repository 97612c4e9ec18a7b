"""Ending a process when the one that started it dies, so that no rank outlives its job."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from mpiparallel.cluster.exit_codes import SIGNALLED

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
