"""How a rank waits for what MPI does: at once, or asleep where ranks share cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from mpiparallel.communication.mpi.library import MPI, reporting
from mpiparallel.communication.protocol import Completion

RequestWait: TypeAlias = Callable[..., object]
"""What waits for a request and fills a status, if it is given one."""

NAP = 0.005
_SHORT_NAP = 1e-4
_YIELDS = 50


def wait_napping(request: MPI.Request, status: MPI.Status | None = None) -> None:
    """Wait for a request: yield for a while, then nap between looks."""
    for _ in range(_YIELDS):
        if request.Test(status):
            return
        os.sched_yield()
    while not request.Test(status):
        time.sleep(_SHORT_NAP)


def wait_spinning(request: MPI.Request, status: MPI.Status | None = None) -> None:
    """Wait for a request with all that the core can give."""
    request.Wait(status)


def completion(
    requests: Sequence[MPI.Request], wait: RequestWait, landed: Completion, sent: NDArray[Any]
) -> Completion:
    """Return what waits for the requests and then deals with what has arrived; ``sent`` is kept until then."""
    kept = [sent]

    @reporting
    def end() -> None:
        for request in requests:
            wait(request)
        kept.clear()
        landed()

    return end


def already_ended() -> None:
    """End a collective that has ended."""
