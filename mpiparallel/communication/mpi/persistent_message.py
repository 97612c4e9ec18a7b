"""A message between two MPI ranks that is sent again and again by the same requests, seen from one of its ends."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from mpiparallel.communication.mpi.collective_monitor import CollectiveCall
from mpiparallel.communication.mpi.library import MPI, reporting
from mpiparallel.communication.mpi.mpi_world import MpiWorld


class PersistentMessage:
    """The requests of the pieces of ``array``; ``check`` is given the status of each that a receive has ended.

    ``enter`` writes down that it is started; that it goes on is written down too, and when this rank waits for it. The
    requests are freed when it is let go of, or when Python ends. The array is kept until then, and among the
    ``unended`` of the world where MPI may still touch it.
    """

    def __init__(
        self,
        array: NDArray[Any],
        enter: Callable[[], CollectiveCall],
        requests: Sequence[MPI.Prequest],
        world: MpiWorld,
        check: Callable[[int, MPI.Status], None] | None = None,
    ) -> None:
        self._enter = enter
        self._requests = requests
        self._wait = world.wait
        self._check = check
        self._call: CollectiveCall | None = None
        weakref.finalize(self, _free, array, requests, world.unended, cancels=check is not None)

    @reporting
    def start(self) -> None:
        call = self._call = self._enter()
        for request in self._requests:
            request.Start()
        call.going_on()

    @reporting
    def end(self) -> None:
        if self._call is None:
            return
        call, self._call = self._call, None
        status = MPI.Status()
        with call.resumed():
            for index, request in enumerate(self._requests):
                self._wait(request, status)
                if self._check is not None:
                    self._check(index, status)


def _free(array: NDArray[Any], requests: Sequence[MPI.Prequest], unended: list[NDArray[Any]], cancels: bool) -> None:
    """Free the requests. A receive under way is cancelled, or it would take what is sent to a later one."""
    if MPI.Is_finalized():
        return
    for request in requests:
        if cancels and not _has_ended(request):
            request.Cancel()
        if not _has_ended(request):
            unended.append(array)
        request.Free()


def _has_ended(request: MPI.Prequest) -> bool:
    """Return whether nothing is under way; where a rank has died its messages end by an error."""
    try:
        return bool(request.Test())
    except MPI.Exception:
        return True
