"""A function in a process of its own, which may end at any point without ending the test."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable

_SECONDS = 120


def exit_status(function: Callable[[], object], seconds: int = _SECONDS) -> int:
    """Run ``function`` in a fork of this process; return its exit status, negative for the signal that ended it.

    1 is for an exception, whose traceback is on stderr. The fork is ended by SIGALRM after ``seconds``.
    """
    with warnings.catch_warnings():
        # The fork runs no thread of this process, and needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if not process:
        status = 1
        try:
            signal.alarm(seconds)
            function()
            status = 0
        except BaseException:  # nothing may return into the tests of the parent
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
