"""Copies on their way: what was sent may be overwritten, and memory is used again only once a message has ended."""

from __future__ import annotations

import numpy as np

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.outbox import Outbox
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world


def job(communicator: Communicator) -> tuple[int, int, list[float]]:
    outbox, backend = Outbox(), NumpyBackend()
    array = np.zeros(4)
    if communicator.rank == 0:
        for value in range(3):
            array[:] = value
            outbox.send(communicator, backend, array[::2], 1, value)
        on_their_way = outbox.byte_count
        communicator.barrier()
        outbox.end()
        for value in range(3):
            outbox.send(communicator, backend, array[::2], 1, value)
        outbox.end()
        return on_their_way, outbox.byte_count, []
    communicator.barrier()
    found = []
    for tag in (2, 1, 0, 0, 1, 2):
        received = np.empty(2)
        communicator.receive(received, 0, tag)
        found.append(float(received.sum()))
    return 0, 0, found


def test_what_is_sent_may_be_overwritten_and_memory_comes_back_when_it_has_arrived() -> None:
    (on_their_way, afterwards, _), (_, _, found) = run_world(2, job)
    assert found == [4.0, 2.0, 0.0, 4.0, 4.0, 4.0]
    assert (on_their_way, afterwards) == (48, 48)
