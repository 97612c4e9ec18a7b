"""Memory that the ranks of a host share: files without a name, which peers open through /proc.

Nothing is ever left on a disk or in /dev/shm, whatever ends the job. A block lives until the last process that maps it
unmaps it or ends.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.shared_memory import SharedMemory
from mpiparallel.errors import CommunicationError

_MAGIC = 0x6D70_6970_6172_0000
_PROBE_BYTES = 8
# Where more ranks share a host, each touches only a small part of a peer's block.
_FEW = 8


def share(communicator: Communicator, nbytes: int) -> SharedMemory:
    """Return a block of ``nbytes`` bytes of each member on this host; all members call it."""
    if not communicator.can_share:
        raise CommunicationError(
            "share: the ranks of a host cannot see each other's memory here: /proc is missing, or not theirs to read; "
            "send the bytes with exchange"
        )
    return _share(communicator, nbytes)


def can_share(world: Communicator, host: Communicator) -> bool:
    """Return whether on every host the ranks see each other's memory; all ranks of ``world`` call it."""
    seen = False
    with suppress(CommunicationError, MemoryError):
        memory = _share(host, _PROBE_BYTES)
        memory.own.view(np.uint64)[0] = _MAGIC + world.rank
        host.barrier()
        seen = all(memory.of(member).view(np.uint64)[0] == _MAGIC + rank for member, rank in enumerate(host.ranks))
        host.barrier()
    return not world.any_true(not seen)


def _share(communicator: Communicator, nbytes: int) -> SharedMemory:
    with _anonymous_file(communicator, nbytes) as descriptor:
        places = np.empty((communicator.size, 3), np.int64)
        communicator.all_gather(np.array([os.getpid(), descriptor, nbytes]), places)
        blocks = {}
        own_host = communicator.hosts[communicator.rank]
        few = communicator.hosts.count(own_host) <= _FEW
        with failing_together(communicator, MemoryError):
            for member, (rank, host) in enumerate(zip(communicator.ranks, communicator.hosts, strict=True)):
                if host != own_host:
                    continue
                if rank == communicator.ranks[communicator.rank]:
                    blocks[member] = _mapped(descriptor, nbytes, at_once=True)
                else:
                    process, number, length = places[member].tolist()
                    blocks[member] = _mapped_of(process, number, length, few)
    return SharedMemory(blocks[communicator.rank], blocks)


@contextmanager
def _anonymous_file(communicator: Communicator, nbytes: int) -> Iterator[int]:
    """Lend a file in memory that has all its pages; raise MemoryError on all members if one cannot have it."""
    descriptor = -1
    try:
        with failing_together(communicator, MemoryError):
            descriptor = _created()
            # Memory that is missing shows here, as an error; at the first write to a page it would end the process.
            os.posix_fallocate(descriptor, 0, max(1, nbytes))
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _created() -> int:
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no files in memory")
    return os.memfd_create("mpiparallel", os.MFD_CLOEXEC)


def _mapped_of(process: int, descriptor: int, nbytes: int, at_once: bool) -> NDArray[np.uint8]:
    opened = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
    try:
        return _mapped(opened, nbytes, at_once)
    finally:
        os.close(opened)


def _mapped(descriptor: int, nbytes: int, at_once: bool) -> NDArray[np.uint8]:
    if os.fstat(descriptor).st_size < nbytes:
        raise OSError(f"a file of {os.fstat(descriptor).st_size} bytes is not the block of {nbytes} bytes of a peer")
    return np.asarray(_Mapping(descriptor, max(1, nbytes), at_once))[:nbytes]


class _Mapping:
    """Mapped pages, which NumPy arrays can lie in; unlike ``mmap.mmap`` it keeps no descriptor open.

    ``at_once`` maps all pages now, which takes a tenth of the time that they take one by one, when they are touched.
    """

    def __init__(self, descriptor: int, nbytes: int, at_once: bool) -> None:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        flags = mmap.MAP_SHARED | (mmap.MAP_POPULATE if at_once else 0)
        address = _SYSTEM.mmap(None, nbytes, access, flags, descriptor, 0)
        if address == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, f"{nbytes} bytes cannot be mapped: {os.strerror(code)}")
        _SYSTEM.madvise(address, nbytes, mmap.MADV_HUGEPAGE)
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, False)}
        # Not at the end of the interpreter, when arrays may still be read.
        weakref.finalize(self, _SYSTEM.munmap, address, nbytes).atexit = False


def _system() -> ctypes.CDLL:
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    system.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    system.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return system


_SYSTEM = _system()
_FAILED = ctypes.c_void_p(-1).value
