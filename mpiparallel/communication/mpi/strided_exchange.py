"""Views of arrays that travel without packing: a datatype for each peer, and one Alltoallw a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication import arguments
from mpiparallel.communication.agreement import failing_together, raise_together
from mpiparallel.communication.mpi.library import MPI, reporting
from mpiparallel.communication.mpi.strided_types import datatype_of
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError

Views = Mapping[int, Sequence[NDArray[Any]]]


class MpiExchange:
    """The committed datatypes of one exchange, and the arrays whose addresses they hold."""

    def __init__(self, communicator: Communicator, call: Callable[..., None], sends: Views, receives: Views) -> None:
        rank = communicator.rank
        self._call = call
        with failing_together(communicator, MemoryError):
            sends, self._before = _staged(sends)
            receives, staged = _staged(receives)
            self._datatypes: list[MPI.Datatype] = []
            self._message = [self._side(views, rank, communicator.size) for views in (sends, receives)]
        self._after = [(view, stage) for stage, view in staged]
        self._own = list(zip(receives.get(rank, ()), sends.get(rank, ()), strict=True))
        self._kept = [*sends.values(), *receives.values()]

    @reporting
    def run(self) -> None:
        arguments.refuse(arguments.freed_problem("strided_exchange", not self._message))
        for target, source in self._before:
            np.copyto(target, source)
        self._call("Alltoallw", *self._message)
        for target, source in (*self._own, *self._after):
            np.copyto(target, source)

    @reporting
    def free(self) -> None:
        for datatype in self._datatypes:
            datatype.Free()
        for kept in (self._datatypes, self._message, self._own, self._kept, self._before, self._after):
            kept.clear()

    @reporting
    def _side(self, views: Views, rank: int, size: int) -> list[Any]:
        counts, datatypes = [0] * size, [MPI.BYTE] * size
        for peer, given in views.items():
            if peer != rank and any(view.nbytes for view in given):
                counts[peer], datatypes[peer] = 1, datatype_of(given)
                self._datatypes.append(datatypes[peer])
        return [MPI.BOTTOM, counts, [0] * size, datatypes]


def _staged(views: Views) -> tuple[Views, list[tuple[NDArray[Any], NDArray[Any]]]]:
    """Return the views with a new array for each that runs backward, and the pairs of new array and view.

    Open MPI 5.0 moves wrong bytes, or ends the process, where a datatype steps backward in memory.
    """
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def stage(view: NDArray[Any]) -> NDArray[Any]:
        if min(view.strides, default=0) >= 0:
            return view
        pairs.append((np.empty(view.shape, view.dtype), view))
        return pairs[-1][0]

    return {member: [stage(view) for view in given] for member, given in views.items()}, pairs


def agree_on_views(communicator: Communicator, sends: Views, receives: Views) -> None:
    """Raise ``CommunicationError`` on all members if the views of two of them are not alike, or on one no views."""
    size, rank = communicator.size, communicator.rank
    problem = arguments.views_problem(sends, receives, size)
    sent, expected = (_digests({} if problem else views, size) for views in (sends, receives))
    found = np.empty_like(sent)
    communicator.all_to_all(sent, found)
    unlike = np.flatnonzero(found != expected)
    if unlike.size and problem is None:
        problem = arguments.unlike_views(int(unlike[0]), rank)
    raise_together(problem, communicator, CommunicationError)


def _digests(views: Views, size: int) -> NDArray[np.uint64]:
    """Return for each member the digest of the forms of its views; 0 where there are none."""
    digests = np.zeros(size, np.uint64)
    for member, given in views.items():
        if given:
            digest = blake2b(repr(arguments.forms(given)).encode(), digest_size=8).digest()
            digests[member] = np.frombuffer(digest, np.uint64)[0]
    return digests
