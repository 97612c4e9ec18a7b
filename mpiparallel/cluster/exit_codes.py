"""The exit codes of a job and of its ranks; a process that a signal ended has 128 and the signal's number."""

from __future__ import annotations

import signal

COMPLETED = 0
FAILED = 1
REFUSED = 2
REQUEUE = 85
"""Preempted after a checkpoint was committed: start the job again, and it goes on from there."""
HUNG = 86
"""Ended by the watchdog: ranks waited for one that did not come."""
TIMED_OUT = 124
SIGNALLED = 128
"""Added to the number of the signal that ended a process, as shells do."""
OF_MPIRUN = (SIGNALLED + signal.SIGTERM, SIGNALLED + signal.SIGKILL)
"""How processes end that mpirun ends."""


def of_wait(status: int) -> int:
    """Return the exit code for a ``status`` of wait(2).

    >>> of_wait(9), of_wait(3 << 8)
    (137, 3)
    """
    number = status & 0x7F
    return SIGNALLED + number if number else status >> 8 & 0xFF
