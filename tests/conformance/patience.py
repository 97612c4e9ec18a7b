"""How tests wait: until what they wait for has come, or hangs. A busy machine is no hang.

No test has a number of seconds of its own: what is slow on one machine is quick on another. ``Patience`` counts the
seconds of a quiet machine; where processes wait for processors, a second of the clock counts for less.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

VARIABLE: Final = "MPIPARALLEL_TEST_PATIENCE"
"""How many times as long tests wait, for machines that are slow by themselves."""
SECONDS: Final = 300.0
_SECONDS_TO_STOP: Final = 20.0
_LONGEST_NAP = 0.05
_SLICE = 0.5


class Patience:
    """Is there for as long as no hang is known: so many seconds of a machine that nobody else uses."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds * float(os.environ.get(VARIABLE, "1"))
        self._last = time.monotonic()

    def is_left(self) -> bool:
        """Count the time since it was asked last, and return whether there is some left."""
        now = time.monotonic()
        self._left -= (now - self._last) / _waiting_for_a_processor()
        self._last = now
        return self._left > 0.0


def _waiting_for_a_processor() -> float:
    """Return how many processes want each processor of this one, at least 1."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def stretched(seconds: float) -> float:
    """Return how many seconds of the clock this machine now takes for what takes so many while it is quiet.

    For limits of what is tested, which must not strike before the machine has come to it.
    """
    return seconds * float(os.environ.get(VARIABLE, "1")) * _waiting_for_a_processor()


def wait_until(happened: Callable[[], object], told: Callable[[], str] = str) -> None:
    """Wait until ``happened`` returns something true; the test fails where that hangs, with what ``told`` returns."""
    patience, nap = Patience(), 0.001
    while not happened():
        if not patience.is_left():
            pytest.fail(f"it has not come to pass: {happened.__qualname__}\n{told()}")
        time.sleep(nap)
        nap = min(2.0 * nap, _LONGEST_NAP)


def waited(process: subprocess.Popen[Any]) -> int:
    """Return the exit status of a process when it has ended; the test fails where it hangs."""
    patience = Patience()
    while True:
        try:
            return process.wait(_SLICE)
        except subprocess.TimeoutExpired:
            if not patience.is_left():
                _end(process)
                pytest.fail(f"{process.args!r} hangs")


def communicated(process: subprocess.Popen[Any], seconds: float = SECONDS) -> tuple[Any, Any]:
    """Return what a process has printed when it has ended; the test fails where it hangs, with that."""
    patience = Patience(seconds)
    while True:
        try:
            return process.communicate(timeout=_SLICE)
        except subprocess.TimeoutExpired:
            if not patience.is_left():
                pytest.fail(f"{process.args!r} hangs:\n{_end(process)}")


def run(
    words: Sequence[object],
    capture_output: bool = False,
    check: bool = False,
    seconds: float = SECONDS,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Do what ``subprocess.run`` does, and fail where the process hangs; a long one may be given more ``seconds``."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([str(word) for word in words], **options) as process:
        output, errors = communicated(process, seconds)
    ended = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    if check and ended.returncode:
        pytest.fail(f"{process.args!r} ended with {ended.returncode}:\n{output}\n{errors}")
    return ended


def _end(process: subprocess.Popen[Any]) -> tuple[Any, Any]:
    """End a process, and its session where it has one of its own; return what it has printed."""
    # mpirun ends its ranks on SIGTERM, but not on SIGKILL.
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=_SECONDS_TO_STOP)
    if os.getpgid(process.pid) == process.pid:
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=_SECONDS_TO_STOP)
    return None, None
