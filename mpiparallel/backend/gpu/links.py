"""What a CUDA device offers to communication beside arrays and streams: who it is, NCCL, memory seen by processes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from mpiparallel.backend.gpu.shared_block import SharedBlocks
from mpiparallel.backend.gpu.wait import before_waiting

_NOT_READY: Final = 600
"""CUDA's number for work that is under way."""


class DeviceLinks:
    """CuPy's ``cuda`` on device ``device_id``."""

    def __init__(self, cuda: Any, device_id: int) -> None:
        self._cuda = cuda
        self._device_id = device_id

    @property
    def uuid(self) -> str:
        """The device's own number, in hexadecimal: no other has it, on no host; a part of a card (MIG) has its own."""
        found: bytes = self._cuda.runtime.getDeviceProperties(self._device_id)["uuid"]
        return found.hex()

    @property
    def card(self) -> str:
        """Where on its host the card is in which the device is, such as "0000:17:00.0"."""
        return str(self._cuda.runtime.deviceGetPCIBusId(self._device_id))

    @property
    def nccl(self) -> Any:
        """CuPy's module of NCCL, or None where its library cannot be loaded."""
        # A module that nobody else has imported: it is no attribute of CuPy before.
        found = importlib.import_module("cupy.cuda.nccl")
        return found if found.available else None

    @property
    def nccl_version(self) -> int:
        """Such as 22707 for 2.27.7; 0 where there is no NCCL."""
        return int(self.nccl.get_version()) if self.nccl else 0

    @property
    def memory_bytes(self) -> int:
        """All memory of the device."""
        return int(self._cuda.runtime.memGetInfo()[1])

    def seconds(self, stream: Any, work: Callable[[], object]) -> float:
        """Return what the device takes for what ``work`` gives a stream, by events before and after; the host waits."""
        first, last = self._cuda.Event(), self._cuda.Event()
        first.record(stream)
        work()
        last.record(stream)
        before_waiting()
        last.synchronize()
        return float(self._cuda.get_elapsed_time(first, last)) / 1e3

    def check(self, stream: Any) -> None:
        """Raise CUDA's error where the device has failed, and wait for nothing.

        An event that never comes for that is to CuPy like one that has not come yet.
        """
        runtime = self._cuda.runtime
        status = runtime.streamQuery(stream.ptr)
        if status != _NOT_READY:
            runtime.check_status(status)

    @property
    def blocks(self) -> SharedBlocks:
        """Memory of the device that other processes open."""
        return SharedBlocks(self._cuda.runtime)
