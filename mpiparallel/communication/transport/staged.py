"""Device arrays through pinned memory of the host, in portions: one is copied while MPI moves the one before.

Two slots of pinned memory serve all calls, turn by turn. A copy into a slot is given to the stream of communication
after the copy out of it, so neither waits for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.protocol import Array, Backend, Event
from mpiparallel.communication.protocol import Communicator, Completion, Reduction
from mpiparallel.communication.transport.lengths import Span, spans
from mpiparallel.dataclass import dataclass

SLOT_BYTES: Final = 8 << 20
"""Bytes of each of the two slots: large enough for the bandwidth of the bus, small enough to overlap."""
_BORDER: Final = 64

HostArray = NDArray[Any]


@dataclass(frozen=True)
class Portion:
    """What of a call goes at once: copies to the host, the call on host arrays, copies to the device."""

    loads: Sequence[tuple[Array, HostArray]]
    arguments: tuple[Any, ...]
    stores: Sequence[tuple[HostArray, Array]]


Make = Callable[["Slot", int, int], Portion]


class Slot:
    """Pinned memory from which the host arrays of a portion are cut."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self._memory = memory
        self._start = 0

    def cut(self, shape: tuple[int, ...], dtype: Any) -> HostArray:
        """Return the next array."""
        length = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        start, self._start = self._start, self._start + length + -length % _BORDER
        found: HostArray = self._memory[start : start + length].view(dtype)
        return found.reshape(shape)


class PinnedSlots:
    """The two slots that all staged calls of a program share, made when the first is bound."""

    def __init__(self, slot_bytes: int = SLOT_BYTES) -> None:
        self.slot_bytes = slot_bytes
        self._pair: tuple[NDArray[np.uint8], ...] = ()

    def pair(self, backend: Backend) -> tuple[NDArray[np.uint8], ...]:
        """Return both."""
        self._pair = self._pair or (self.new(backend), self.new(backend))
        return self._pair

    def new(self, backend: Backend) -> NDArray[np.uint8]:
        """Return a slot that nobody shares."""
        return backend.host_array((self.slot_bytes,), np.uint8)


class StagedCall:
    """The portions of one call: of the spans of its elements, each made by ``make`` in a slot."""

    def __init__(self, transport: StagedTransport, method: str, make: Make, whole: Sequence[Span]) -> None:
        self._communicator = transport.communicator
        self._backend = transport.backend
        self._method = method
        slots = transport.slots.pair(transport.backend)
        self._portions = [make(Slot(slots[number % len(slots)]), *span) for number, span in enumerate(whole)]
        self._lasting: list[Portion] = []
        self._make, self._spans, self._slots = make, whole, transport.slots

    def run(self) -> None:
        """Move portion after portion; the last copies to the device may still be going on."""
        self._follow_compute()
        loaded = self._load(self._portions[0])
        for number, portion in enumerate(self._portions):
            ready = loaded
            if number + 1 < len(self._portions):
                loaded = self._load(self._portions[number + 1])
            ready.synchronize()
            getattr(self._communicator, self._method)(*portion.arguments)
            self._store(portion)
        self._lead_compute()

    def start(self) -> Completion:
        """Begin with all portions, each in a slot of its own until the end."""
        self._lasting = self._lasting or [
            self._make(Slot(self._slots.new(self._backend)), *span) for span in self._spans
        ]
        self._follow_compute()
        loaded = [self._load(portion) for portion in self._lasting]
        ends: list[Completion] = []
        for ready, portion in zip(loaded, self._lasting, strict=True):
            ready.synchronize()
            ends.append(getattr(self._communicator, f"start_{self._method}")(*portion.arguments))

        def finish() -> None:
            self._follow_compute()
            for end, portion in zip(ends, self._lasting, strict=True):
                end()
                self._store(portion)
            self._lead_compute()

        return finish

    def _follow_compute(self) -> None:
        self._backend.communication.wait_event(self._backend.compute.record())

    def _lead_compute(self) -> None:
        self._backend.compute.wait_event(self._backend.communication.record())

    def _load(self, portion: Portion) -> Event:
        with self._backend.communication:
            for source, target in portion.loads:
                self._backend.start_copy_to_host(source, target)
        # Also where nothing is copied: the slot is free when the copies out of it have ended.
        return self._backend.communication.record()

    def _store(self, portion: Portion) -> None:
        with self._backend.communication:
            for source, target in portion.stores:
                self._backend.start_copy_from_host(source, target)


class StagedTransport:
    """Calls of ``communicator`` on device arrays, by way of the host. Sums have the order that MPI chooses."""

    name = "staging"

    def __init__(self, communicator: Communicator, backend: Backend, slots: PinnedSlots) -> None:
        self.communicator = communicator
        self.backend = backend
        self.slots = slots
        self._room = slots.slot_bytes - _BORDER * (2 + 2 * communicator.size)

    def graph_calls(self) -> None:
        """Return nothing: MPI makes the calls, on the host."""

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> StagedCall:
        flat = array.reshape(-1)

        def make(slot: Slot, start: int, stop: int) -> Portion:
            host, part = slot.cut((stop - start,), flat.dtype), flat[start:stop]
            return Portion([(part, host)], (host, operation), [(host, part)])

        return self._call("all_reduce", make, flat, 1)

    def all_gather(self, source: Array, target: Array) -> StagedCall:
        size, flat = self.communicator.size, source.reshape(-1)
        rows = target.reshape(size, -1)

        def make(slot: Slot, start: int, stop: int) -> Portion:
            own, whole = (slot.cut((*members, stop - start), flat.dtype) for members in ((), (size,)))
            stores = [(whole[member], rows[member, start:stop]) for member in range(size)]
            return Portion([(flat[start:stop], own)], (own, whole), stores)

        return self._call("all_gather", make, flat, size + 1)

    def reduce_scatter(self, source: Array, target: Array, operation: Reduction = "sum") -> StagedCall:
        size, flat = self.communicator.size, target.reshape(-1)
        rows = source.reshape(size, -1)

        def make(slot: Slot, start: int, stop: int) -> Portion:
            whole, own = (slot.cut((*members, stop - start), flat.dtype) for members in ((size,), ()))
            loads = [(rows[member, start:stop], whole[member]) for member in range(size)]
            return Portion(loads, (whole, own, operation), [(own, flat[start:stop])])

        return self._call("reduce_scatter", make, flat, size + 1)

    def all_to_all(self, source: Array, target: Array) -> StagedCall:
        size = self.communicator.size
        given, taken = source.reshape(size, -1), target.reshape(size, -1)

        def make(slot: Slot, start: int, stop: int) -> Portion:
            sent, received = (slot.cut((size, stop - start), source.dtype) for _ in range(2))
            loads = [(given[member, start:stop], sent[member]) for member in range(size)]
            stores = [(received[member], taken[member, start:stop]) for member in range(size)]
            return Portion(loads, (sent, received), stores)

        return self._call("all_to_all", make, given[0], 2 * size)

    def broadcast(self, array: Array, root: int) -> StagedCall:
        flat, gives = array.reshape(-1), self.communicator.rank == root

        def make(slot: Slot, start: int, stop: int) -> Portion:
            host, part = slot.cut((stop - start,), flat.dtype), flat[start:stop]
            return Portion([(part, host)] if gives else [], (host, root), [] if gives else [(host, part)])

        return self._call("broadcast", make, flat, 1)

    def reduce(self, array: Array, root: int, operation: Reduction = "sum") -> StagedCall:
        flat, takes = array.reshape(-1), self.communicator.rank == root

        def make(slot: Slot, start: int, stop: int) -> Portion:
            host, part = slot.cut((stop - start,), flat.dtype), flat[start:stop]
            return Portion([(part, host)], (host, root, operation), [(host, part)] if takes else [])

        return self._call("reduce", make, flat, 1)

    def exchange(self, sends: Mapping[int, Array], receives: Mapping[int, Array]) -> StagedCall:
        # The same at both ends of each message, whatever else a member exchanges.
        most = max(1, self._room // (2 * self.communicator.size))
        longest = np.array(max((one.size for side in (sends, receives) for one in side.values()), default=0))
        self.communicator.all_reduce(longest, "max")

        def make(slot: Slot, start: int, stop: int) -> Portion:
            given, taken = (
                {peer: one[start:stop] for peer, one in side.items() if one.size > start} for side in (sends, receives)
            )
            sent = {peer: slot.cut((part.size,), np.uint8) for peer, part in given.items()}
            received = {peer: slot.cut((part.size,), np.uint8) for peer, part in taken.items()}
            loads = [(part, sent[peer]) for peer, part in given.items()]
            return Portion(loads, (sent, received), [(received[peer], part) for peer, part in taken.items()])

        return StagedCall(self, "exchange", make, spans(int(longest), most))

    def _call(self, method: str, make: Make, block: Array, blocks: int) -> StagedCall:
        """Return the call whose portions hold ``blocks`` times a span of ``block``."""
        most = max(1, self._room // (blocks * block.dtype.itemsize))
        return StagedCall(self, method, make, spans(block.size, most))
