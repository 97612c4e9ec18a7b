"""What shared memory costs a process, and what is left of it; each claim is checked on every rank."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError

Opener = Callable[..., int] | None

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


def check_that_pages_which_cannot_be_mapped_are_refused_on_all(world: Communicator) -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    if world.rank == 1:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + LENGTH // 2, limits[1]))
    with pytest.raises(MemoryError, match=rf"rank 1: .*{LENGTH} bytes cannot be mapped: Cannot allocate memory"):
        world.share(LENGTH)
    resource.setrlimit(resource.RLIMIT_AS, limits)


def check_that_ranks_which_see_no_peer_do_not_share(patch: pytest.MonkeyPatch, name: str, stand_in: Opener) -> None:
    """Check it where rank 1 has a ``stand_in`` for the function ``name`` of the system, or none."""
    from mpiparallel.communication import mpi
    from mpiparallel.communication.mpi.library import MPI

    if MPI.COMM_WORLD.Get_rank() == 1:
        patch.setattr(os, name, stand_in) if stand_in else patch.delattr(os, name)
    blind = mpi.world()
    patch.undo()
    assert not blind.can_share
    with pytest.raises(CommunicationError, match="cannot see each other's memory"):
        blind.share(1)
    blind.free()


def refused(*_: object) -> int:
    raise PermissionError(13, "Permission denied")


def another_file(nbytes: int) -> Opener:
    """Return what opens a file of so many zeros, as where a number is that of a process of another container."""

    def opened(*_: object) -> int:
        descriptor = os.memfd_create("another")
        os.truncate(descriptor, nbytes)
        return descriptor

    return opened


BLINDNESS: tuple[tuple[str, Opener], ...] = (
    ("open", refused),
    ("open", another_file(0)),
    ("open", another_file(LENGTH)),
    ("memfd_create", None),
)


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
    check_that_pages_which_cannot_be_mapped_are_refused_on_all(world)
    for name, stand_in in BLINDNESS:
        with pytest.MonkeyPatch.context() as patch:
            check_that_ranks_which_see_no_peer_do_not_share(patch, name, stand_in)
    world.free()
    sys.stdout.write(f"rank {world.rank} leaves nothing behind\n")


if __name__ == "__main__":
    main()
