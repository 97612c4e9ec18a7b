"""Further processes of the same program that join a world of MPI ranks."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mpiparallel.cluster.environment import is_launched
from mpiparallel.communication import spawned_processes
from mpiparallel.communication.abort_hook import let_last_words_through
from mpiparallel.communication.agreement import failing_together, raise_together
from mpiparallel.communication.mpi.communicator import MpiCommunicator
from mpiparallel.communication.mpi.library import MPI, reporting
from mpiparallel.communication.mpi.opening import abort_job_on_uncaught_exception, opened, world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError

_MEND = "where processes cannot be started, begin with as many ranks as will be needed, and let some rest"
# Of Open MPI's mpirun, which would refuse more processes than cores; others ignore what they do not know.
_PLACEMENT = {"map_by": "slot:oversubscribe", "bind_to": "none"}


@reporting
def grow(communicator: Communicator, count: int, seconds: float = 120.0) -> Communicator:
    """Start ``count`` more processes of this program and return the world of old and new ranks; all members call it.

    Members keep their numbers and the new ranks follow. The same interpreter runs the same program with the same
    arguments, in the folder it was started in. There ``mpiparallel.communication.init()`` finds the same world, and
    ``joined()`` is true. ``communicator`` stays as it is. The job ends if any of the ranks fails.

    Raises ``CommunicationError`` on all members where the launcher or the MPI library cannot start processes. If the
    new ones do not call ``init()`` within ``seconds``, MPI has no way back, and the job ends with a message.
    """
    if not isinstance(communicator, MpiCommunicator):
        raise CommunicationError(f"grow: {communicator.library} cannot start processes; start the job with mpirun")
    raise_together(_problem(count), communicator, CommunicationError)
    _agree_on_count(count, communicator)
    with _patience(count, seconds):
        with failing_together(communicator, CommunicationError):
            started = _started(communicator.comm, count)
        union = started.Merge(False)
    started.Free()
    abort_job_on_uncaught_exception()
    return opened(union, grown=True)


@reporting
def joined_world() -> Communicator:
    """Return the world that started this process, on its first call; afterwards that of the processes started with it.

    All ranks call ``grow`` or this.
    """
    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        return world()
    union = parent.Merge(True)
    parent.Free()
    return opened(union, grown=True)


def _problem(count: int) -> str | None:
    if count < 1:
        return f"grow: {count} processes cannot be started; pass 1 or more"
    if not is_launched(os.environ):
        return "grow: this process was started without a launcher, which would start others; use mpirun -n 1"
    return None


def _agree_on_count(count: int, communicator: Communicator) -> None:
    ends = np.array([count, -count])
    communicator.all_reduce(ends, "max")
    if ends[0] != -ends[1]:
        raise CommunicationError(f"grow: ranks ask for {-ends[1]} to {ends[0]} processes; pass one number on all ranks")


def _started(comm: MPI.Intracomm, count: int) -> MPI.Intercomm:
    info = MPI.Info.Create({"wdir": str(spawned_processes.FOLDER), **_PLACEMENT})
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    try:
        return comm.Spawn(sys.executable, spawned_processes.arguments_of_this_program(), count, info)
    except MPI.Exception as error:
        raise CommunicationError(
            f"grow: the launcher did not start {count} processes ({error.Get_error_string()}); {_MEND}"
        ) from error
    finally:
        info.Free()


@contextmanager
def _patience(count: int, seconds: float) -> Iterator[None]:
    """End the job if the body takes too long: MPI waits for ever for processes that end before they join."""

    def give_up() -> None:
        sys.stderr.write(
            f"mpiparallel: {count} processes were to join, but did not call mpiparallel.communication.init() within "
            f"{seconds:g} s; the job ends. What they print says why; {_MEND}\n"
        )
        let_last_words_through()
        os._exit(1)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
