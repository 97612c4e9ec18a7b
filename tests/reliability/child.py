"""A function in a process of its own, which may end at any point without ending the test."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable

from tests.conformance.patience import Patience

_NAP = 0.002


def exit_status(function: Callable[[], object], seconds: float = 300.0) -> int:
    """Run ``function`` in a fork of this process; return its exit status, negative for the signal that ended it.

    1 is for an exception, whose traceback is on stderr. The fork is killed where it hangs: after so many
    ``seconds`` of a quiet machine.
    """
    with warnings.catch_warnings():
        # The fork runs no thread of this process, and needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if not process:
        status = 1
        try:
            function()
            status = 0
        except BaseException:  # nothing may return into the tests of the parent
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)
    patience = Patience(seconds)
    while not (ended := os.waitpid(process, os.WNOHANG))[0]:
        if not patience.is_left():
            os.kill(process, signal.SIGKILL)
        time.sleep(_NAP)
    return os.waitstatus_to_exitcode(ended[1])
