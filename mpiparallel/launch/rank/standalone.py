"""What a rank does itself where no launcher watches it: show its output, say how it failed, and end the whole job."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from mpiparallel.launch.job.growing_log import GrowingLog
from mpiparallel.launch.job.terminal_text import printable

_LOOK_SECONDS = 0.1
_ABORT_SECONDS = 5.0
_LAST_WORDS_SECONDS = 0.5


class Standalone:
    """A rank that srun or a bare mpirun has started; made while stdout and stderr are still theirs.

    Where it ``shows``, all that comes to the rank's log appears on that stdout too, each line behind ``prefix``.
    """

    def __init__(self, *, shows: bool, prefix: str = "") -> None:
        self._stdout, self._stderr = os.dup(1), os.dup(2)
        self._shows, self._prefix = shows, prefix.encode()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, log: Path) -> None:
        """Show what comes to ``log`` from now on, to the end of the process."""
        if self._shows:
            self._thread = threading.Thread(target=self._show, args=(log,), name="show log", daemon=True)
            self._thread.start()
            atexit.register(self._end)

    def say(self, words: str) -> None:
        """Say ``words`` on the original stderr."""
        with suppress(OSError):
            os.write(self._stderr, f"mpiparallel: {printable(words.rstrip())}\n".encode(errors="backslashreplace"))

    def fail(self, words: str, code: int) -> NoReturn:
        """`say` ``words`` and end the whole job with exit code ``code``.

        A rank that MPI runs on aborts it: a task that only exits does not end the others under ``srun --mpi=pmi2``.
        """
        self._end()
        self.say(words)
        # srun drops what is still on its way from another node when a job is aborted.
        time.sleep(_LAST_WORDS_SECONDS)
        aborting = threading.Thread(target=_abort, args=(code,), daemon=True)
        aborting.start()
        # MPI may be what hangs.
        aborting.join(_ABORT_SECONDS)
        os._exit(code)

    def _show(self, log: Path) -> None:
        growing = GrowingLog(log, self._prefix)
        is_last = False
        # A reader that is gone ends the showing, not the rank; all is in the log.
        with suppress(OSError):
            while not is_last:
                is_last = self._ended.wait(_LOOK_SECONDS)
                _write(self._stdout, growing.added(is_last))

    def _end(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        self._ended.set()
        if self._thread:
            self._thread.join(_ABORT_SECONDS)


def _write(descriptor: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(descriptor, piece) :]


def _abort(code: int) -> None:
    # Only where the script has started MPI: what launches ranks never does.
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(code)
