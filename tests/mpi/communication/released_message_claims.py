"""What becomes of messages of MPI that are let go of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator

LENGTH = 1 << 18


def a_message_that_was_let_go_of_arrives_as_it_was(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    if world.rank == 0:
        message = world.message_to(np.full(LENGTH, 5.0), 1, 6)
        message.start()
        del message
        # It would take the place of what was sent, if that were free.
        other = np.full(LENGTH, 7.0)
        world.barrier()
        assert other[0] == 7.0
    elif world.rank == 1:
        received = np.empty(LENGTH)
        world.barrier()
        world.receive(received, 0, 6)
        assert (received == 5.0).all()
    else:
        world.barrier()


def a_message_to_a_dead_rank_is_freed_and_not_kept(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import persistent_message
    from mpiparallel.communication.mpi.library import MPI

    done: list[str] = []
    unended: list[NDArray[Any]] = []

    def ask() -> bool:
        raise MPI.Exception(MPI.ERR_PROC_FAILED)

    request: Any = SimpleNamespace(Test=ask, Cancel=lambda: done.append("cancel"), Free=lambda: done.append("free"))
    persistent_message._free(np.zeros(1), [request, request], unended, cancels=True)
    assert done == ["free", "free"]
    assert not unended


def a_message_may_outlive_mpi(world: Communicator) -> None:
    from mpiparallel.communication.mpi.library import MPI

    message = world.message_to(np.zeros(1), (world.rank + 1) % world.size)
    world.free()
    MPI.Finalize()
    del message


RELEASE_CLAIMS = (
    a_message_that_was_let_go_of_arrives_as_it_was,
    a_message_to_a_dead_rank_is_freed_and_not_kept,
)
