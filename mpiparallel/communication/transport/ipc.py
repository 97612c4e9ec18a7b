"""Calls between ranks that share a GPU: each writes what the others need, and reads theirs, all in its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.protocol import Communicator, Completion, Reduction
from mpiparallel.communication.transport.device_wire import DeviceWire
from mpiparallel.communication.transport.ipc_group import IpcGroup
from mpiparallel.communication.transport.lengths import Span, compare_lengths, spans
from mpiparallel.communication.wire_dtypes import UFUNCS

_BORDER: Final = 64

Write = Callable[[Array, int, int], object]
"""What writes a span of a call to the own slot."""
Read = Callable[[Sequence[Array], int, int], object]
"""What reads a span of a call from the slots of all members."""


class IpcCall:
    """One call: each span of it is written to the own slot, and read from those of all when all have written.

    It is written down by ``words``, with the ``count`` of elements that each member gives.
    """

    def __init__(
        self,
        transport: IpcTransport,
        words: tuple[str, ...],
        count: int,
        whole: Sequence[Span],
        write: Write,
        read: Read,
    ) -> None:
        self._transport = transport
        self._words, self._count, self._spans = words, count, whole
        self._write, self._read = write, read

    def run(self) -> None:
        """Do it; the last reads may still be going on."""
        self.start()()

    def start(self) -> Completion:
        """Do all that the others take part in; what is returned lets computing wait for the last reads."""
        communicator, backend, group = (
            self._transport.communicator,
            self._transport.backend,
            self._transport.group,
        )
        backend.communication.wait_event(backend.compute.record())
        with communicator.noted(*self._words, count=self._count):
            for span in self._spans:
                slots = group.take_turn()
                with backend.communication:
                    self._write(slots[communicator.rank], *span)
                group.meet()
                with backend.communication:
                    self._read(slots, *span)
        return partial(backend.compute.wait_event, backend.communication.record())


class IpcTransport:
    """Calls on device arrays of ranks that share a GPU. Sums are formed in the order of the members.

    ``float16`` and ``bfloat16`` are summed in ``float32``; ``bool``, NaN and the rest are as ``Communicator`` says.
    """

    name = "ipc"

    def __init__(self, communicator: Communicator, backend: Backend, group: IpcGroup) -> None:
        self.communicator = communicator
        self.backend = backend
        self.group = group
        self._copy = backend.array_module.copyto

    def graph_calls(self) -> None:
        """Return nothing: the hosts meet in each turn."""

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> IpcCall:
        return self._reduced(("all_reduce", array.dtype.str, operation), array, operation, takes=True)

    def reduce(self, array: Array, root: int, operation: Reduction = "sum") -> IpcCall:
        words = ("reduce", array.dtype.str, operation, f"root {root}")
        return self._reduced(words, array, operation, takes=self.communicator.rank == root)

    def reduce_scatter(self, source: Array, target: Array, operation: Reduction = "sum") -> IpcCall:
        size, own = self.communicator.size, self.communicator.rank
        wire, block = DeviceWire(source.dtype, operation), target.reshape(-1)
        rows, length = source.reshape(size, -1), self._length(size)

        def write(slot: Array, start: int, stop: int) -> None:
            for member in range(size):
                self._put(wire.pack(rows[member, start:stop]), slot[member * length :])

        def read(slots: Sequence[Array], start: int, stop: int) -> None:
            self._combine(wire, [slot[own * length :] for slot in slots], block[start:stop])

        words = ("reduce_scatter", source.dtype.str, operation)
        return IpcCall(self, words, source.size, spans(block.size, length // _widest(wire)), write, read)

    def all_gather(self, source: Array, target: Array) -> IpcCall:
        sent = source.reshape(-1).view(np.uint8)
        rows = target.reshape(-1).view(np.uint8).reshape(self.communicator.size, -1)

        def read(slots: Sequence[Array], start: int, stop: int) -> None:
            for member, slot in enumerate(slots):
                self._copy(rows[member, start:stop], slot[: stop - start])

        words = ("all_gather", source.dtype.str)
        return IpcCall(self, words, source.size, spans(sent.size, self.group.slot_bytes), self._one(sent), read)

    def all_to_all(self, source: Array, target: Array) -> IpcCall:
        size = self.communicator.size
        given, taken = (one.reshape(-1).view(np.uint8).reshape(size, -1) for one in (source, target))
        sends, receives = ({peer: side[peer] for peer in range(size)} for side in (given, taken))
        return self._pairs(("all_to_all", source.dtype.str), source.size, sends, receives, given.shape[1])

    def broadcast(self, array: Array, root: int) -> IpcCall:
        sent, gives = array.reshape(-1).view(np.uint8), self.communicator.rank == root

        def read(slots: Sequence[Array], start: int, stop: int) -> None:
            if not gives:
                self._copy(sent[start:stop], slots[root][: stop - start])

        words = ("broadcast", array.dtype.str, f"root {root}")
        write = self._one(sent) if gives else _write_nothing
        return IpcCall(self, words, array.size, spans(sent.size, self.group.slot_bytes), write, read)

    def exchange(self, sends: Mapping[int, Array], receives: Mapping[int, Array]) -> IpcCall:
        compare_lengths(self.communicator, sends, receives)
        # As many turns on all members, whatever each of them exchanges.
        longest = np.array(max((one.size for side in (sends, receives) for one in side.values()), default=0))
        self.communicator.all_reduce(longest, "max")
        return self._pairs(("exchange",), 0, sends, receives, int(longest))

    def _pairs(
        self,
        words: tuple[str, ...],
        count: int,
        sends: Mapping[int, Array],
        receives: Mapping[int, Array],
        longest: int,
    ) -> IpcCall:
        """Return what lays the bytes for each member beside each other in the slot."""
        own, length = self.communicator.rank, self._length(self.communicator.size)

        def write(slot: Array, start: int, stop: int) -> None:
            for peer, sent in sends.items():
                self._put(sent[start:stop], slot[peer * length :])

        def read(slots: Sequence[Array], start: int, stop: int) -> None:
            for peer, received in receives.items():
                part = received[start:stop]
                self._copy(part, slots[peer][own * length : own * length + part.size])

        return IpcCall(self, words, count, spans(longest, length), write, read)

    def _reduced(self, words: tuple[str, ...], array: Array, operation: Reduction, *, takes: bool) -> IpcCall:
        wire, flat = DeviceWire(array.dtype, operation), array.reshape(-1)

        def write(slot: Array, start: int, stop: int) -> None:
            self._put(wire.pack(flat[start:stop]), slot)

        def read(slots: Sequence[Array], start: int, stop: int) -> None:
            if takes:
                self._combine(wire, slots, flat[start:stop])

        return IpcCall(self, words, flat.size, spans(flat.size, self.group.slot_bytes // _widest(wire)), write, read)

    def _combine(self, wire: DeviceWire, places: Sequence[Array], view: Array) -> None:
        """Put the reduction of what lies at all places into ``view``, the first member's first."""
        length = wire.elements(view.size) * wire.dtype.itemsize
        parts = [place[:length].view(wire.dtype) for place in places]
        combine: Any = getattr(self.backend.array_module, UFUNCS[wire.operation].__name__)
        named = {"out": wire.seen(view)} if wire.is_plain else {}
        total = combine(parts[0], parts[1], **named)
        for part in parts[2:]:
            combine(total, part, out=total)
        wire.unpack(total, view)

    def _one(self, sent: Array) -> Write:
        return lambda slot, start, stop: self._put(sent[start:stop], slot)

    def _put(self, part: Array, place: Array) -> None:
        self._copy(place[: part.nbytes], part.view(np.uint8))

    def _length(self, sections: int) -> int:
        """Return the bytes of each section of a slot."""
        return self.group.slot_bytes // sections // _BORDER * _BORDER


def _widest(wire: DeviceWire) -> int:
    """Return the bytes that an element takes as it travels."""
    return wire.elements(1) * wire.dtype.itemsize


def _write_nothing(slot: Array, start: int, stop: int) -> None:
    """Write nothing: others read only what another member has."""
