"""Messages on their way, and the memory that they are sent from."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.protocol import Communicator, Message


class Outbox:
    """Sends copies of arrays, without waiting; the memory of a copy is used again only after its message has ended."""

    def __init__(self) -> None:
        self._going: deque[tuple[Message, NDArray[np.uint8]]] = deque()
        self._free: dict[int, list[NDArray[np.uint8]]] = {}

    @property
    def byte_count(self) -> int:
        """Bytes of memory that it has taken so far."""
        going = sum(buffer.size for _, buffer in self._going)
        return going + sum(buffer.size for free in self._free.values() for buffer in free)

    def send(self, communicator: Communicator, backend: Backend, array: Array, target: int, tag: int) -> None:
        """Start to send a copy of ``array`` to member ``target``."""
        self._collect()
        free = self._free.setdefault(array.nbytes, [])
        buffer = free.pop() if free else np.empty(array.nbytes, np.uint8)
        copied = buffer.view(array.dtype).reshape(array.shape)
        backend.copy_to_host(array, copied)
        self._going.append((communicator.start_send(copied, target, tag), buffer))

    def end(self) -> None:
        """Wait until all messages have ended."""
        while self._going:
            message, buffer = self._going.popleft()
            message.end()
            self._free[buffer.size].append(buffer)

    def _collect(self) -> None:
        """Take the memory of messages back that have ended; asking also moves on those that have not."""
        for _ in range(len(self._going)):
            message, buffer = self._going.popleft()
            if message.has_ended():
                self._free[buffer.size].append(buffer)
            else:
                self._going.append((message, buffer))
