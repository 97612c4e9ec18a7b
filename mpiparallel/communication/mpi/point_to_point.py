"""Bytes of any length between members, point to point.

A sender tells the length first, in a message of its own, then sends the bytes in pieces that one MPI message can hold.
A receiver takes all that was sent before it refuses a length. So no message is cut off, which Open MPI does not always
survive. And nothing is left over that a later exchange could take for its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication import arguments
from mpiparallel.communication.mpi.library import MPI
from mpiparallel.communication.mpi.request_waiting import RequestWait
from mpiparallel.errors import CommunicationError

_TAG = arguments.LARGEST_TAG + 1


def exchange(
    comm: MPI.Intracomm,
    sends: Mapping[int, NDArray[np.uint8]],
    receives: Mapping[int, NDArray[np.uint8]],
    largest: int,
    wait: RequestWait,
) -> None:
    """Send ``sends[k]`` to member ``k`` and fill ``receives[k]`` from it, in pieces of at most ``largest`` bytes.

    Raises ``CommunicationError``, after all has arrived, if a member sent another number of bytes.
    """
    rank = comm.Get_rank()
    expected = {peer: np.zeros(1, np.int64) for peer in _ring(receives, rank)}
    announced = {peer: comm.Irecv(length, peer, _TAG) for peer, length in expected.items()}
    lengths = {peer: np.array([sends[peer].size], np.int64) for peer in _ring(sends, rank)}
    requests = [comm.Isend(length, peer, _TAG) for peer, length in lengths.items()]
    for peer in lengths:
        requests += [comm.Isend([piece, MPI.BYTE], peer, _TAG) for piece in _pieces(sends[peer], largest)]
    problems = [_copied(sends, receives, rank)]
    for peer, request in announced.items():
        wait(request)
        sent, view = int(expected[peer][0]), receives[peer]
        if sent != view.size:
            problems.append(_unlike(peer, sent, rank, view.size))
            view = np.empty(sent, np.uint8)
        requests += [comm.Irecv([piece, MPI.BYTE], peer, _TAG) for piece in _pieces(view, largest)]
    for request in requests:
        wait(request)
    arguments.refuse(next((problem for problem in problems if problem), None))


def _pieces(view: NDArray[np.uint8], largest: int) -> Iterator[NDArray[np.uint8]]:
    return (view[start : start + largest] for start in range(0, view.size, largest))


def _ring(peers: Mapping[int, object], rank: int) -> list[int]:
    """Return the peers without this rank, beginning after it, so that ranks do not all begin with the same peer."""
    return sorted((peer for peer in peers if peer != rank), key=lambda peer: (peer < rank, peer))


def _copied(sends: Mapping[int, NDArray[np.uint8]], receives: Mapping[int, NDArray[np.uint8]], rank: int) -> str | None:
    """Copy what a member sends to itself, or say what is wrong with it."""
    sent, view = sends.get(rank), receives.get(rank)
    if sent is None and view is None:
        return None
    if sent is None or view is None or sent.size != view.size:
        return _unlike(rank, 0 if sent is None else sent.size, rank, 0 if view is None else view.size)
    np.copyto(view, sent)
    return None


def _unlike(source: int, sent: int, target: int, expected: int) -> str:
    return f"exchange: member {source} sends {sent} bytes to member {target}, which expects {expected} bytes"


def check_count(status: MPI.Status, expected: int, source: int, own: int) -> None:
    """Raise CommunicationError unless member ``source`` has sent as many bytes as this one, ``own``, expected."""
    if status.Get_count(MPI.BYTE) != expected:
        raise CommunicationError(
            f"receive: member {source} sent {status.Get_count(MPI.BYTE)} bytes where member {own} receives {expected}"
        )
