"""CUDA-aware MPI: it is given the addresses of device arrays, and moves them itself.

To the communicator they are NumPy arrays over the device's memory, of which nobody on the host reads an element. MPI
knows nothing of streams, so the host waits for the device before each call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.protocol import Communicator, Completion, Reduction
from mpiparallel.communication.transport.device_wire import DeviceWire
from mpiparallel.communication.transport.protocol import do_nothing
from mpiparallel.errors import CommunicationError

_MOST: Final = 2**31 - 1
"""Bytes of a message that every MPI library takes; a communicator splits a larger one, and copies its own part."""


class MappedCall:
    """A method of a communicator on addresses; ``pack`` and ``unpack`` are computed before and after."""

    def __init__(
        self,
        transport: MappedTransport,
        method: str,
        arguments: Callable[[], tuple[Any, ...]],
        pack: Callable[[], object] = do_nothing,
        unpack: Callable[[], object] = do_nothing,
    ) -> None:
        self._communicator = transport.communicator
        self._backend = transport.backend
        self._method = method
        self._arguments = arguments
        self._pack, self._unpack = pack, unpack

    def run(self) -> None:
        """Wait for the device, then let MPI move its memory."""
        self._ready()
        getattr(self._communicator, self._method)(*self._arguments())
        self._unpack()

    def start(self) -> Completion:
        """Wait for the device, then let MPI begin."""
        self._ready()
        end = getattr(self._communicator, f"start_{self._method}")(*self._arguments())

        def finish() -> None:
            end()
            self._unpack()

        return finish

    def _ready(self) -> None:
        self._pack()
        self._backend.synchronize()


class MappedTransport:
    """Calls of a communicator on device arrays themselves. Sums have the order that MPI chooses."""

    name = "mpi"

    def __init__(self, communicator: Communicator, backend: Backend) -> None:
        self.communicator = communicator
        self.backend = backend

    def graph_calls(self) -> None:
        """Return nothing: MPI makes the calls, on the host."""

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> MappedCall:
        return self._reduced("all_reduce", array, array, operation)

    def reduce(self, array: Array, root: int, operation: Reduction = "sum") -> MappedCall:
        takes = self.communicator.rank == root
        return self._reduced("reduce", array, array if takes else None, operation, root)

    def reduce_scatter(self, source: Array, target: Array, operation: Reduction = "sum") -> MappedCall:
        wire, block = DeviceWire(source.dtype, operation), target.reshape(-1)
        if wire.is_plain:
            return self._plain("reduce_scatter", wire.seen(source.reshape(-1)), wire.seen(block), wire.operation)
        landing = self.backend.empty(wire.elements(block.size) * wire.dtype.itemsize).view(wire.dtype)
        packed: list[Array] = []

        def arguments() -> tuple[Any, ...]:
            return self._seen(packed[0]), self._seen(landing), wire.operation

        return MappedCall(
            self,
            "reduce_scatter",
            arguments,
            lambda: packed.__setitem__(slice(None), [wire.pack(source.reshape(-1))]),
            lambda: wire.unpack(landing, block),
        )

    def all_gather(self, source: Array, target: Array) -> MappedCall:
        sent, received = (one.reshape(-1).view(np.uint8) for one in (source, target))
        if received.size > _MOST:
            return self.exchange(dict.fromkeys(range(self.communicator.size), sent), self._blocks(received))
        return self._plain("all_gather", sent, received)

    def all_to_all(self, source: Array, target: Array) -> MappedCall:
        sent, received = (one.reshape(-1).view(np.uint8) for one in (source, target))
        if sent.size > _MOST:
            return self.exchange(self._blocks(sent), self._blocks(received))
        return self._plain("all_to_all", sent, received)

    def _blocks(self, whole: Array) -> dict[int, Array]:
        rows = whole.reshape(self.communicator.size, -1)
        return {member: rows[member] for member in range(len(rows))}

    def broadcast(self, array: Array, root: int) -> MappedCall:
        return self._plain("broadcast", array.reshape(-1).view(np.uint8), root)

    def exchange(self, sends: Mapping[int, Array], receives: Mapping[int, Array]) -> MappedCall:
        own = self.communicator.rank

        def arguments() -> tuple[Any, ...]:
            sides = (sends, receives)
            return tuple({peer: self._seen(one) for peer, one in side.items() if peer != own} for side in sides)

        return MappedCall(self, "exchange", arguments, self._own_copy(sends.get(own), receives.get(own)))

    def _own_copy(self, sent: Array | None, received: Array | None) -> Callable[[], object]:
        """Return what copies a member's bytes for itself: on the device, as the host cannot."""
        sizes = [0 if one is None else one.size for one in (sent, received)]
        if sizes[0] != sizes[1]:
            own = self.communicator.rank
            raise CommunicationError(
                f"exchange: member {own} sends {sizes[0]} bytes to member {own}, which expects {sizes[1]} bytes"
            )
        return partial(self.backend.array_module.copyto, received, sent) if sizes[0] else do_nothing

    def _plain(self, method: str, *arguments: Any) -> MappedCall:
        def seen() -> tuple[Any, ...]:
            return tuple(one if isinstance(one, (int, str)) else self._seen(one) for one in arguments)

        return MappedCall(self, method, seen)

    def _reduced(
        self, method: str, source: Array, target: Array | None, operation: Reduction, *root: int
    ) -> MappedCall:
        wire, packed = DeviceWire(source.dtype, operation), list[Array]()

        def unpack() -> None:
            if target is not None:
                wire.unpack(packed[0], target.reshape(-1))

        return MappedCall(
            self,
            method,
            lambda: (self._seen(packed[0]), *root, wire.operation),
            lambda: packed.__setitem__(slice(None), [wire.pack(source.reshape(-1))]),
            unpack,
        )

    def _seen(self, array: Array) -> np.ndarray[Any, Any]:
        """Return a NumPy array at the address of a device array: for MPI alone."""
        memory = (ctypes.c_char * max(array.nbytes, 1)).from_address(self.backend.address(array))
        seen: np.ndarray[Any, Any] = np.frombuffer(memory, np.uint8, array.nbytes).view(array.dtype)
        return seen.reshape(array.shape)
