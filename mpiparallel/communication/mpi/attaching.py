"""Whether the ranks of a host may read each other's memory."""

from __future__ import annotations

import os
from contextlib import suppress

import numpy as np

from mpiparallel.communication import process_memory
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError

_MAGIC = 0x6D70_6970_6172_0001


def processes(world: Communicator, host: Communicator) -> tuple[int, ...]:
    """Return the process of each rank, none where some rank cannot read the memory of another one of its host.

    All ranks of ``world`` call it, with the communicator of those on their host. It is tried: process numbers may mean
    other processes, or none, where ranks run in containers of their own.
    """
    process_memory.open_to_readers()
    own = np.array([_MAGIC + world.rank], np.int64)
    place = np.array([os.getpid(), own.ctypes.data], np.int64)
    everywhere = np.empty((world.size, 2), np.int64)
    world.all_gather(place, everywhere)
    found = np.zeros(1, np.int64)
    sees_all = False
    with suppress(CommunicationError):
        for rank in host.ranks:
            process, address = everywhere[rank].tolist()
            pairs = process_memory.row_pairs((1,), 8, (found.ctypes.data, (8,)), (address, (8,)))
            process_memory.read(process, pairs)
            if found[0] != _MAGIC + rank:
                break
        else:
            sees_all = True
    # What is looked for stays where it is until all have looked.
    world.barrier()
    return () if world.any_true(not sees_all) else tuple(everywhere[:, 0].tolist())
