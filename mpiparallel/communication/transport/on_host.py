"""Arrays in the host's memory: the communicator itself moves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.communication.protocol import Communicator, Completion, Reduction
from mpiparallel.dataclass import dataclass


@dataclass(frozen=True)
class HostCall:
    """A method of a communicator with its arguments."""

    communicator: Communicator
    method: str
    arguments: tuple[Any, ...]

    def run(self) -> None:
        """Make the call."""
        getattr(self.communicator, self.method)(*self.arguments)

    def start(self) -> Completion:
        """Start the call, one of those that can be started."""
        completion: Completion = getattr(self.communicator, f"start_{self.method}")(*self.arguments)
        return completion


class HostTransport:
    """The calls of a communicator, as they are."""

    name = "host"

    def __init__(self, communicator: Communicator) -> None:
        self.communicator = communicator

    def graph_calls(self) -> None:
        """Return nothing: the host makes the calls."""

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> HostCall:
        return self._call("all_reduce", array, operation)

    def all_gather(self, source: Array, target: Array) -> HostCall:
        return self._call("all_gather", source, target)

    def reduce_scatter(self, source: Array, target: Array, operation: Reduction = "sum") -> HostCall:
        return self._call("reduce_scatter", source, target, operation)

    def all_to_all(self, source: Array, target: Array) -> HostCall:
        return self._call("all_to_all", source, target)

    def broadcast(self, array: Array, root: int) -> HostCall:
        return self._call("broadcast", array, root)

    def reduce(self, array: Array, root: int, operation: Reduction = "sum") -> HostCall:
        return self._call("reduce", array, root, operation)

    def exchange(self, sends: Mapping[int, Array], receives: Mapping[int, Array]) -> HostCall:
        return self._call("exchange", sends, receives)

    def _call(self, method: str, *arguments: Any) -> HostCall:
        return HostCall(self.communicator, method, arguments)
