"""The exit codes of a job and of its ranks; a process that a signal ended has 128 and the signal's number."""

from __future__ import annotations

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
