"""A collective bound to its arrays: run at once, or started and ended later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.graph.execution.runtime import Runtime, do_nothing
from mpiparallel.graph.operator import Kernel


@dataclass(frozen=True)
class BoundCollective:
    """A call of a communicator on host arrays, what brings them up to date before, and what takes the result after."""

    communicator: Communicator
    method: str
    arguments: tuple[Any, ...]
    before: Kernel = do_nothing
    after: Kernel = do_nothing

    def run(self) -> None:
        """Do it all."""
        self.before()
        getattr(self.communicator, self.method)(*self.arguments)
        self.after()

    def start(self) -> Callable[[], None]:
        """Begin; the outputs are there when what is returned has been called. Until then inputs must not change."""
        self.before()
        end = getattr(self.communicator, f"start_{self.method}")(*self.arguments)

        def finish() -> None:
            end()
            self.after()

        return finish


class Startable(Protocol):
    """An operator whose collective can be started before its result is needed."""

    def bound(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> BoundCollective:
        """Return the collective on these arrays."""


class HostStaging:
    """A device array's copy in host memory, for MPI; the array itself when it is in host memory already."""

    def __init__(self, backend: Backend, array: Array) -> None:
        self._backend = backend
        self._array = array
        self.in_place = self.serves(array)
        self.host: np.ndarray[Any, Any] = array if self.in_place else backend.host_array(array.shape, array.dtype)

    @staticmethod
    def serves(array: Array) -> bool:
        """Return whether MPI can use an array as it is."""
        return isinstance(array, np.ndarray) and bool(array.flags.c_contiguous)

    def load(self) -> None:
        """Bring the host copy up to date."""
        if not self.in_place:
            self._backend.copy_to_host(self._array, self.host)

    def store(self) -> None:
        """Bring the array up to date with the host copy."""
        if not self.in_place:
            self._backend.copy_from_host(self.host, self._array)
