"""What shared memory costs a process, and what is left of it; each claim is checked on every rank."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pytest

from mpiparallel.communication.protocol import Communicator

LENGTH = 8 << 20


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def shared_kib() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssShmem:"))


def check_that_no_descriptor_is_left(world: Communicator) -> None:
    world.share(1)
    before = descriptors()
    kept = [world.share(100) for _ in range(50)]
    assert descriptors() == before
    for _ in range(1000):
        world.share(100)
    assert descriptors() == before
    assert len(kept) == 50


def check_that_memory_is_given_back(world: Communicator) -> None:
    before = shared_kib()
    memory = world.share(LENGTH)
    memory.own[:] = world.rank + 1
    assert shared_kib() - before >= LENGTH >> 10
    world.barrier()
    peer = (world.rank + 1) % world.size
    theirs = memory.of(peer)
    del memory
    world.barrier()
    assert (theirs == peer + 1).all(), "a block outlives its owner's arrays while a peer has one over it"
    world.barrier()
    del theirs
    assert shared_kib() - before < LENGTH >> 12


def check_that_nothing_has_a_name(world: Communicator) -> None:
    memory = world.share(LENGTH)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    own = next(line for line in maps if line.startswith(f"{memory.own.ctypes.data:x}-"))
    assert own.endswith("/memfd:mpiparallel (deleted)")
    world.barrier()


def check_that_a_refused_block_is_refused_on_all(world: Communicator) -> None:
    before, limits = descriptors(), resource.getrlimit(resource.RLIMIT_FSIZE)
    if world.rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    with pytest.raises(MemoryError, match=r"rank 1: .*File too large"):
        world.share(LENGTH)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert descriptors() == before
    assert world.share(LENGTH).own.size == LENGTH


def check_that_ranks_which_see_no_peer_do_not_share(world: Communicator) -> None:
    from mpiparallel.communication import mpi

    real = os.open
    if world.rank == 1:
        os.open = refused  # type: ignore[assignment]
    blind = mpi.world()
    os.open = real
    assert not blind.can_share
    with pytest.raises(Exception, match="cannot see each other's memory"):
        blind.share(1)
    blind.free()


def refused(*_: object) -> int:
    raise PermissionError(13, "Permission denied")


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import mpi

    mpi.abort_job_on_uncaught_exception()
    world = mpi.world()
    assert world.can_share
    check_that_no_descriptor_is_left(world)
    check_that_memory_is_given_back(world)
    check_that_nothing_has_a_name(world)
    check_that_a_refused_block_is_refused_on_all(world)
    check_that_ranks_which_see_no_peer_do_not_share(world)
    world.free()
    sys.stdout.write(f"rank {world.rank} leaves nothing behind\n")


if __name__ == "__main__":
    main()
