"""Grows from the ranks it is started with to five; the argument says what a process that joins does wrong."""

from __future__ import annotations

import sys

import numpy as np

from mpiparallel.communication import get_rank, init, joined, release
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.world import current
from mpiparallel.errors import CommunicationError

RANKS = 5


def grown(world: Communicator, count: int) -> Communicator:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import mpi

    union = mpi.grow(world, count, seconds=3.0 if "early" in sys.argv else 60.0)
    assert (union.rank, union.size) == (world.rank, world.size + count)
    world.barrier()
    return union


def check(union: Communicator, beginners: int) -> None:
    joiners = np.empty(union.size, bool)
    union.all_gather(np.array(joined()), joiners)
    assert not joiners[:beginners].any()
    assert joiners[beginners:].all()
    received = np.zeros(5, np.uint8)
    after, before = (union.rank + 1) % union.size, (union.rank - 1) % union.size
    union.exchange({after: np.full(5, union.rank, np.uint8)}, {before: received})
    assert (received == before).all()
    if union.can_share:
        memory = union.share(8)
        memory.own[:] = union.rank
        union.barrier()
        assert (memory.of(before) == before).all()
    total = np.array(1)
    union.world_of(range(union.size)[::-1]).all_reduce(total)
    assert total == union.size


def main() -> None:
    beginners = int(sys.argv[1])
    if joined() and "early" in sys.argv:
        return
    init()
    world = current()
    try:
        if "unlike" in sys.argv:
            grown(world, 1 + world.rank)
        if joined():
            check(world, beginners)
        while world.size < RANKS:
            world = grown(world, min(2, RANKS - world.size))
            check(world, beginners)
    except CommunicationError as error:
        sys.stdout.write(f"rank {world.rank} is refused: {error}\n")
        return
    if "fail" in sys.argv and world.rank == RANKS - 1:
        raise ValueError("the newcomer has no data")
    if "fail" in sys.argv:
        world.rest()
    world.barrier()
    number, is_new = world.rank, joined()
    assert get_rank() == number
    release()
    sys.stdout.write(f"rank {number} of {RANKS} is through, {'new' if is_new else 'old'}\n")


if __name__ == "__main__":
    main()
