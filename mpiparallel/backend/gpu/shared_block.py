"""Device memory that other processes on the same GPU read: CUDA's own blocks, which no pool cuts into arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mpiparallel.errors import CommunicationError


def memory_space() -> str:
    """Return what threads have in common that know memory by the same addresses: their process."""
    return f"{os.getpid()} of {Path('/proc/self/ns/pid').readlink()}"


class SharedBlocks:
    """What CUDA's ``runtime`` allocates, names for other processes, and opens by such names (CUDA IPC).

    A name is that of a whole allocation, so blocks are made outside of CuPy's pool. All methods raise
    CommunicationError for what CUDA refuses.
    """

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime

    def allocate(self, byte_count: int) -> int:
        """Return the address of a new block."""
        return int(self._asked("malloc", byte_count))

    def free(self, address: int) -> None:
        """Give a block back, after all others have closed it."""
        self._asked("free", address)

    def name(self, address: int) -> bytes:
        """Return the 64 bytes by which another process opens a block."""
        found: bytes = self._asked("ipcGetMemHandle", address)
        return found

    def open(self, name: bytes) -> int:
        """Return the address at which this process sees the block of another."""
        return int(self._asked("ipcOpenMemHandle", name))

    def close(self, address: int) -> None:
        """See it no more."""
        self._asked("ipcCloseMemHandle", address)

    def _asked(self, function: str, argument: Any) -> Any:
        try:
            return getattr(self._runtime, function)(argument)
        except RuntimeError as error:
            raise CommunicationError(
                f"memory of the GPU cannot be shared between processes ({function}): {error}; "
                "MPIPARALLEL_TRANSPORT=staging does without"
            ) from error


class AddressedBytes:
    """Bytes at an address, as array libraries take in the memory of others (``__cuda_array_interface__``)."""

    def __init__(self, address: int, byte_count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (byte_count,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }
