"""The exception hook that ends the whole job, and what a rank says before it does."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
import termios
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

_MOST_SECONDS = 2.0
_SETTLING_SECONDS = 0.2
_NAP = 0.005


class _AbortJob:
    """An exception hook that ends all ranks: the others would wait for ever for one that left."""

    def __init__(self, report: Callable[..., Any], abort: Callable[[BaseException], Any]) -> None:
        self._report = report
        self._abort = abort

    def __call__(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        try:
            self._report(kind, error, traceback)
            let_last_words_through()
        finally:
            # Also where the streams are closed or broken: the other ranks wait.
            self._abort(error)


def abort_on_uncaught_exception(abort: Callable[[BaseException], Any]) -> None:
    """Let an uncaught exception print its traceback, then call ``abort`` with it; calling this again does nothing."""
    if not isinstance(sys.excepthook, _AbortJob):
        sys.excepthook = _AbortJob(sys.excepthook, abort)


def let_last_words_through() -> None:
    """Flush stdout and stderr, and give the launcher time to pass them on; waits at most about two seconds.

    Launchers read what ranks print through pipes, and drop what is still there when a rank aborts the job.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    deadline = time.monotonic() + _MOST_SECONDS
    while any(_unread_bytes(descriptor) for descriptor in (1, 2)) and time.monotonic() < deadline:
        time.sleep(_NAP)
    time.sleep(_SETTLING_SECONDS)


def _unread_bytes(descriptor: int) -> int:
    """Return how many bytes of a pipe nobody has read yet; 0 for what is no pipe."""
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return 0
        answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    except OSError:
        return 0
    return int(struct.unpack("i", answer)[0])
