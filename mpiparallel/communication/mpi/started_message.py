"""A message between two MPI ranks that was started, seen from one of its ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from numpy.typing import NDArray

from mpiparallel.communication.mpi.collective_monitor import CollectiveCall
from mpiparallel.communication.mpi.library import MPI, reporting
from mpiparallel.communication.mpi.waiting import RequestWait


class StartedMessage:
    """The requests of the pieces of ``array``, which it keeps alive; ``check`` is given the status of each in turn.

    That it goes on is written down, and when this rank waits for it, and that it has ended.
    """

    def __init__(
        self,
        array: NDArray[Any],
        call: CollectiveCall,
        requests: Iterable[MPI.Request],
        wait: RequestWait,
        check: Callable[[int, MPI.Status], None],
    ) -> None:
        self._array = array
        self._passage = call
        self._left = deque(enumerate(requests))
        self._wait = wait
        self._check = check
        self._is_over = False
        call.going_on()

    @reporting
    def has_ended(self) -> bool:
        status = MPI.Status()
        while self._left:
            index, request = self._left[0]
            if not request.Test(status):
                return False
            self._left.popleft()
            self._check(index, status)
        self.end()
        return True

    @reporting
    def end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        status = MPI.Status()
        with self._passage.resumed():
            while self._left:
                index, request = self._left.popleft()
                self._wait(request, status)
                self._check(index, status)
