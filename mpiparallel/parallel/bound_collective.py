"""A collective bound to its arrays: run at once, or started and ended later."""

from __future__ import annotations

from collections.abc import Callable

from mpiparallel.backend.protocol import Array
from mpiparallel.communication.transport.protocol import TransportCall
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Runtime, do_nothing
from mpiparallel.graph.operator import Kernel


@dataclass(frozen=True)
class BoundCollective:
    """What moves arrays, what brings them up to date before, and what takes the result after."""

    call: TransportCall
    before: Kernel = do_nothing
    after: Kernel = do_nothing

    def run(self) -> None:
        """Do it all."""
        self.before()
        self.call.run()
        self.after()

    def start(self) -> Callable[[], None]:
        """Begin; the outputs are there when what is returned has been called. Until then inputs must not change."""
        self.before()
        end = self.call.start()

        def finish() -> None:
            end()
            self.after()

        return finish


class OnePiece:
    """An array as transports take it, in C order: itself, or a ``whole`` beside it."""

    def __init__(self, runtime: Runtime, array: Array) -> None:
        self._copy = runtime.array_module.copyto
        self._array = array
        self.in_place = bool(array.flags.c_contiguous)
        self.whole: Array = array if self.in_place else runtime.memory(array.shape, array.dtype)

    def load(self) -> None:
        """Bring the whole up to date."""
        if not self.in_place:
            self._copy(self.whole, self._array)

    def store(self) -> None:
        """Bring the array up to date with the whole."""
        if not self.in_place:
            self._copy(self._array, self.whole)
