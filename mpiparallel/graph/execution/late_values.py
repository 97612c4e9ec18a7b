"""Small results of a device, on their way to the host while that goes on: who reads one waits for that one alone."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import numpy as np

from mpiparallel.backend.gpu.wait import before_waiting
from mpiparallel.backend.protocol import Array, Backend, Event

MOST_BYTES: Final = 4096
"""Of a result that is brought before anybody asks for it."""


class LateValue:
    """A result on its way: ``read`` waits until it is there."""

    def __init__(self, host: np.ndarray[Any, Any], arrived: Event) -> None:
        self._host = host
        self._arrived = arrived

    @property
    def is_there(self) -> bool:
        """Whether reading it waits for nothing."""
        return self._arrived.done

    def read(self) -> np.ndarray[Any, Any]:
        """Return a copy of its own to the reader."""
        if not self._arrived.done:
            before_waiting()
            self._arrived.synchronize()
        return self._host.copy()


class LateValues:
    """What brings the results of a device to the host's memory, and keeps that until the copies have ended.

    >>> from mpiparallel.backend.numpy_backend import NumpyBackend
    >>> LateValues(NumpyBackend()).fetched(np.array(2.0)) is None
    True
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._under_way: deque[LateValue] = deque()

    def fetched(self, array: Array) -> LateValue | None:
        """Begin to bring a result; None where it is large, or in the host's memory already."""
        if not self._backend.is_asynchronous or array.nbytes > MOST_BYTES:
            return None
        host = self._backend.host_array(array.shape, array.dtype)
        self._backend.start_copy_to_host(array, host)
        # A reader may be gone before the copy ends, and pinned memory that nobody holds is given to others.
        while self._under_way and self._under_way[0].is_there:
            self._under_way.popleft()
        self._under_way.append(LateValue(host, self._backend.compute.record()))
        return self._under_way[-1]
