"""What ties a rank that was started by hand to mpirun: each learns how the other ends."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import NoReturn

from mpiparallel.cluster.exit_codes import FAILED as FAILED_CODE
from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.cluster.gathering.meeting_point import ENDED, FAILED
from mpiparallel.communication.gathering.mpirun_starter import MpirunStarter
from mpiparallel.errors import LaunchError

_END_SECONDS = 10.0
_TELL_SECONDS = 5.0
# In characters. Together they fit into one message, whatever letters they are made of.
_LONGEST_TRACEBACK = 40 * 1024
_LONGEST_SUMMARY = 4 * 1024


class Tie:
    """The connection to the stand-in of this rank; where that ends first, the job has ended, and so does this process.

    ``starter`` is there on rank 0, and says why.

    Parameters
    ----------
    connection : socket.socket
        To the stand-in.
    rank : int
        Of this process.
    starter : MpirunStarter, optional
        There on rank 0; says why the job has ended.

    Examples
    --------
    >>> from mpiparallel.communication.gathering import join_hand_started
    >>> isinstance(join_hand_started(), Tie)
    False
    """

    def __init__(self, connection: socket.socket, rank: int, starter: MpirunStarter | None = None) -> None:
        self._connection = connection
        self._rank = rank
        self._starter = starter
        self._process = os.getpid()
        self._is_leaving = False
        self._over = threading.Event()
        # A child of a fork that kept the connection open would hide the end of this rank.
        os.register_at_fork(after_in_child=connection.close)
        atexit.register(self._say_end)
        threading.Thread(target=self._watch, name="tie to mpirun", daemon=True).start()

    def fail(self, error: BaseException) -> NoReturn:
        """Tell mpirun that this rank fails by ``error``, which ends the job, and leave without MPI's end."""
        summary = "".join(traceback.format_exception_only(type(error), error)).strip()
        told = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.leave(FAILED_CODE, summary[:_LONGEST_SUMMARY], told[-_LONGEST_TRACEBACK:])

    def leave(self, code: int, summary: str, told: str = "") -> NoReturn:
        """Tell mpirun that this rank ends with ``code`` because of ``summary``, which ends the job, and leave."""
        self._is_leaving = True
        with suppress(OSError):
            meeting_point.send(self._connection, FAILED, code=code, summary=summary, traceback=told)
            # mpirun must not miss this rank before its stand-in has told why.
            self._over.wait(_TELL_SECONDS)
        os._exit(code)

    def _say_end(self) -> None:
        if os.getpid() == self._process:
            with suppress(OSError):
                meeting_point.send(self._connection, ENDED)

    def _watch(self) -> None:
        # Nothing comes but the end.
        with suppress(OSError, LaunchError):
            meeting_point.receive(self._connection)
        if self._is_leaving:
            self._over.set()
            return
        words = self._starter.last_words(_END_SECONDS) if self._starter else None
        told = words or f"rank {self._rank} ends with the job; rank 0 says why"
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os.write(2, f"mpiparallel: {'error: ' if words else ''}{told}\n".encode(errors="replace"))
        os._exit(FAILED_CODE)
