"""Moves more than 2 GiB, and across more than 2 GiB, between two ranks; most of it is zeros that were never touched."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator

# No multiple of 16, and beyond what 31 bits count.
LENGTH = (1 << 31) + 1000003
ROWS = 3


def marked(rank: int) -> NDArray[np.uint8]:
    array = np.zeros(LENGTH, np.uint8)
    array[[0, 1 << 30, (1 << 31) - 1, 1 << 31, LENGTH - 1]] = np.arange(5) + 10 * rank + 1
    return array


def assert_marked(array: NDArray[np.uint8], rank: int) -> None:
    assert array[[0, 1 << 30, (1 << 31) - 1, 1 << 31, LENGTH - 1]].tolist() == (np.arange(5) + 10 * rank + 1).tolist()
    assert not array[(1 << 31) - 4096 : (1 << 31) - 1].any()


def check_exchange(world: Communicator) -> None:
    if world.rank == 0:
        world.exchange({1: marked(0)}, {})
    else:
        received = np.empty(LENGTH, np.uint8)
        world.exchange({}, {0: received})
        assert_marked(received, 0)


def check_strided_exchange_of_long_rows(world: Communicator) -> None:
    if world.rank == 0:
        exchange = world.strided_exchange({1: [marked(0)]}, {})
        exchange.run()
    else:
        received = np.empty(LENGTH, np.uint8)
        exchange = world.strided_exchange({}, {0: [received]})
        exchange.run()
        assert_marked(received, 0)
    exchange.free()


def check_strided_exchange_across_long_strides(world: Communicator) -> None:
    mine, theirs = np.zeros((ROWS, LENGTH), np.uint8), np.zeros((ROWS, LENGTH), np.uint8)
    mine[:, [5, LENGTH - 7]] = np.arange(2 * ROWS).reshape(ROWS, 2) + 50 * world.rank
    peer = 1 - world.rank
    exchange = world.strided_exchange(
        {peer: [mine[:, 5:6], mine[:, LENGTH - 7 :]]}, {peer: [theirs[:, 8:9], theirs[:, LENGTH - 7 :]]}
    )
    exchange.run()
    assert (theirs[:, [8, LENGTH - 7]] == np.arange(2 * ROWS).reshape(ROWS, 2) + 50 * peer).all()
    exchange.free()


def check_all_to_all_v(world: Communicator) -> None:
    length = LENGTH // 16 * 16
    if world.rank == 0:
        world.all_to_all_v(marked(0)[:length], [16, length - 16], np.empty(16, np.uint8), [16, 0])
    else:
        received = np.empty(length - 16, np.uint8)
        world.all_to_all_v(np.empty(0, np.uint8), [0, 0], received, [length - 16, 0])
        assert received[[(1 << 30) - 16, (1 << 31) - 17, (1 << 31) - 16]].tolist() == [2, 3, 4]


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import mpi

    mpi.abort_job_on_uncaught_exception()
    world = mpi.world()
    check_exchange(world)
    check_strided_exchange_of_long_rows(world)
    check_strided_exchange_across_long_strides(world)
    check_all_to_all_v(world)
    world.free()
    sys.stdout.write(f"rank {world.rank} has moved more than 2 GiB\n")


if __name__ == "__main__":
    main()
