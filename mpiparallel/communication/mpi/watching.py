"""The watchdog of a rank that was started without the launcher, which brings its own."""

from __future__ import annotations

import os
import sys

from mpiparallel.cluster.exit_codes import HUNG
from mpiparallel.cluster.flight.hang_diagnosis import Diagnosis
from mpiparallel.cluster.flight.recorder import FILE_VARIABLE
from mpiparallel.cluster.flight.watchdog import Watchdog, watchdog_seconds
from mpiparallel.communication.abort_hook import let_last_words_through
from mpiparallel.communication.mpi.process_recorder import process_recorder


def watch_this_rank() -> None:
    """Let a rank that hangs print its stacks and what it waits for, and end the job with the code HUNG.

    Raises ConfigurationError where the environment asks for no time.
    """
    if FILE_VARIABLE in os.environ:
        return
    seconds = watchdog_seconds(os.environ)
    if seconds is not None:
        Watchdog(process_recorder(), seconds, _end, sys.stderr.fileno()).start()


def _end(diagnosis: Diagnosis) -> None:
    print(f"mpiparallel: hangs: {diagnosis.sentence}", file=sys.stderr)
    let_last_words_through()
    # Without MPI's end, which the others would never answer; the launcher then ends them.
    os._exit(HUNG)
