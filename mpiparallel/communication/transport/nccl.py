"""NCCL between ranks that have a device each: one communicator of NCCL a group, its id passed on by MPI.

Calls are given to the stream of communication, which waits for what was computed before, and never to the host. They
are written down and compared as all others are; ``InFlight`` watches them until they have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator, Completion, NotedCall, Reduction
from mpiparallel.communication.transport.device_wire import DeviceWire
from mpiparallel.communication.transport.in_flight import InFlight
from mpiparallel.communication.transport.lengths import compare_lengths
from mpiparallel.communication.transport.protocol import do_nothing
from mpiparallel.communication.transport.travelling import Travelling
from mpiparallel.errors import CommunicationError

_ID_BYTES: Final = 128
# The numbers of nccl.h, which are part of its binary interface.
_CODES: Final = {"i1": 0, "u1": 1, "i4": 2, "u4": 3, "i8": 4, "u8": 5, "f4": 7, "f8": 8}
_BYTE: Final = _CODES["u1"]
_OPERATIONS: Final[dict[Reduction, int]] = {"sum": 0, "prod": 1, "max": 2, "min": 3}

Give = Callable[[int], object]
"""What gives a call to the stream with this address."""


class NcclGroup:
    """The communicator of NCCL for the members of ``communicator``; all of them make it together.

    ``check_device`` raises where the device has failed.

    Raises CommunicationError on all of them where NCCL refuses one.
    """

    def __init__(
        self, communicator: Communicator, library: Any, in_flight: InFlight, check_device: Callable[[], None]
    ) -> None:
        self._communicator = communicator
        self._check_device = check_device
        self.library = library
        self.in_flight = in_flight
        identity = np.zeros(_ID_BYTES, np.uint8)
        with failing_together(communicator, CommunicationError):
            if communicator.rank == 0:
                identity[:] = np.frombuffer(library.get_unique_id(), np.uint8)
        communicator.broadcast(identity, 0)
        with failing_together(communicator, CommunicationError):
            try:
                self.comm = library.NcclCommunicator(communicator.size, identity.tobytes(), communicator.rank)
            except library.NcclError as error:
                raise CommunicationError(
                    f"NCCL refuses rank {communicator.ranks[communicator.rank]} of ranks {list(communicator.ranks)}: "
                    f"{error}; NCCL_DEBUG=INFO tells more, MPIPARALLEL_TRANSPORT=staging does without NCCL"
                ) from error
        in_flight.watch(self)

    def check(self) -> None:
        """Raise what has gone wrong in NCCL or on the device, or RankFailureError where a member has died."""
        self._communicator.check_members()
        try:
            self._check_device()
            self.comm.check_async_error()
        except RuntimeError as error:  # CUDA's errors and NCCL's are such
            raise CommunicationError(f"NCCL between ranks {list(self._communicator.ranks)}: {error}") from error

    def abandon(self) -> None:
        """End what is under way, without the others: who waits in it on the device is let go."""
        self.comm.abort()

    def free(self) -> None:
        """Give it back: destroyed where all calls have ended, else aborted, as destroying would wait for the others."""
        if self.in_flight.is_over(self):
            self.comm.destroy()
        else:
            self.comm.abort()
        self.in_flight.forget(self)


class NcclCall:
    """One call: ``pack`` is computed before, ``give`` gives it to a stream, ``unpack`` is computed after."""

    def __init__(
        self,
        transport: NcclTransport,
        words: tuple[str, ...],
        count: int,
        give: Give,
        pack: Callable[[], object] = do_nothing,
        unpack: Callable[[], object] = do_nothing,
    ) -> None:
        self._transport = transport
        self._words, self._count = words, count
        self._give, self._pack, self._unpack = give, pack, unpack

    @property
    def group(self) -> NcclGroup:
        """The communicator of NCCL that carries it out."""
        return self._transport.group

    @property
    def words(self) -> tuple[Any, ...]:
        """What is called, and with how many elements."""
        return (*self._words, self._count)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Who calls it, by world ranks."""
        return tuple(self._transport.communicator.ranks)

    def noted(self) -> NotedCall:
        """Write it down."""
        return self._transport.communicator.noted(*self._words, count=self._count)

    def run(self) -> None:
        """Do it; the host goes on at once."""
        self.start()()

    def start(self) -> Completion:
        """Give it to the stream of communication; what is returned lets computing wait for it."""
        in_flight = self.group.in_flight
        if in_flight.recorded is not None:
            done = self._given()
            in_flight.recorded.append(self)
            return self._ending(done)
        call = self.noted()
        try:
            done = self._given()
        except BaseException:
            with call:
                raise
        in_flight.add(self.group, call, done)
        return self._ending(done)

    def _given(self) -> Any:
        """Give the call to the stream of communication; return the point where it has ended."""
        backend = self._transport.backend
        stream: Any = backend.communication
        self._pack()
        stream.wait_event(backend.compute.record())
        self._give(stream.ptr)
        return stream.record()

    def _ending(self, done: Any) -> Completion:
        def finish() -> None:
            self._transport.backend.compute.wait_event(done)
            self._unpack()

        return finish


class NcclTransport:
    """Calls on device arrays by NCCL, which chooses the order of sums: the same on all members.

    ``float16`` and ``bfloat16`` are summed in ``float32``; ``bool``, NaN and the rest are as ``Communicator`` says.
    """

    name = "nccl"

    def __init__(self, communicator: Communicator, backend: Backend, group: NcclGroup) -> None:
        self.communicator = communicator
        self.backend = backend
        self.group = group

    def graph_calls(self) -> InFlight:
        """Return what looks after the calls of a graph."""
        return self.group.in_flight

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> NcclCall:
        flat, wire, comm = array.reshape(-1), DeviceWire(array.dtype, operation), self.group.comm
        held = Travelling(wire, self.backend, flat.size)

        def give(stream: int) -> None:
            place, *said = self._told(held.array)
            comm.allReduce(place, place, *said, _OPERATIONS[wire.operation], stream)

        words = ("all_reduce", flat.dtype.str, operation)
        return self._call(words, flat, give, lambda: held.pack(flat), lambda: held.unpack(flat))

    def all_gather(self, source: Array, target: Array) -> NcclCall:
        sent, received, comm = source.reshape(-1), target.reshape(-1), self.group.comm
        address = self.backend.address

        def give(stream: int) -> None:
            comm.allGather(address(sent), address(received), sent.nbytes, _BYTE, stream)

        return self._call(("all_gather", sent.dtype.str), sent, give)

    def reduce_scatter(self, source: Array, target: Array, operation: Reduction = "sum") -> NcclCall:
        whole, block, comm = source.reshape(-1), target.reshape(-1), self.group.comm
        wire = DeviceWire(whole.dtype, operation)
        count = wire.elements(block.size)
        landing = wire.seen(block) if wire.is_plain else self.backend.empty(count * wire.dtype.itemsize)
        held = Travelling(wire, self.backend, whole.size, landing.view(wire.dtype))

        def give(stream: int) -> None:
            place, _, code = self._told(held.array)
            comm.reduceScatter(
                place, self.backend.address(held.landing), count, code, _OPERATIONS[wire.operation], stream
            )

        words = ("reduce_scatter", whole.dtype.str, operation)
        return self._call(words, whole, give, lambda: held.pack(whole), lambda: held.unpack(block))

    def all_to_all(self, source: Array, target: Array) -> NcclCall:
        size = self.communicator.size
        given, taken = (one.reshape(-1).view(np.uint8).reshape(size, -1) for one in (source, target))
        give = self._pairs({peer: given[peer] for peer in range(size)}, {peer: taken[peer] for peer in range(size)})
        return self._call(("all_to_all", source.dtype.str), source.reshape(-1), give)

    def broadcast(self, array: Array, root: int) -> NcclCall:
        flat, comm = array.reshape(-1), self.group.comm
        address = self.backend.address

        def give(stream: int) -> None:
            comm.broadcast(address(flat), address(flat), flat.nbytes, _BYTE, root, stream)

        return self._call(("broadcast", flat.dtype.str, f"root {root}"), flat, give)

    def reduce(self, array: Array, root: int, operation: Reduction = "sum") -> NcclCall:
        flat, wire, comm = array.reshape(-1), DeviceWire(array.dtype, operation), self.group.comm
        held, takes = Travelling(wire, self.backend, flat.size), self.communicator.rank == root

        def give(stream: int) -> None:
            place, *said = self._told(held.array)
            # Only the root's array is written.
            comm.reduce(place, place if takes else 0, *said, _OPERATIONS[wire.operation], root, stream)

        words = ("reduce", flat.dtype.str, operation, f"root {root}")
        return self._call(words, flat, give, lambda: held.pack(flat), lambda: held.unpack(flat) if takes else None)

    def exchange(self, sends: Mapping[int, Array], receives: Mapping[int, Array]) -> NcclCall:
        # NCCL would wait for ever, or write behind the end, where the two ends differ.
        compare_lengths(self.communicator, sends, receives)
        return self._call(("exchange",), None, self._pairs(sends, receives))

    def _pairs(self, sends: Mapping[int, Array], receives: Mapping[int, Array]) -> Give:
        """Return what sends and receives in one group of NCCL's; what a member sends to itself is a copy."""
        library, comm, own = self.group.library, self.group.comm, self.communicator.rank
        address, xp, stream_of = self.backend.address, self.backend.array_module, self.backend.communication
        peers = sorted({*sends, *receives} - {own}, key=lambda peer: (peer < own, peer))

        def give(stream: int) -> None:
            library.groupStart()
            for peer in peers:
                if peer in sends and sends[peer].size:
                    comm.send(address(sends[peer]), sends[peer].size, _BYTE, peer, stream)
                if peer in receives and receives[peer].size:
                    comm.recv(address(receives[peer]), receives[peer].size, _BYTE, peer, stream)
            library.groupEnd()
            if own in sends and sends[own].size:
                with stream_of:
                    xp.copyto(receives[own], sends[own])

        return give

    def _told(self, array: Array) -> tuple[int, int, int]:
        """Return address, count and code of an array that travels."""
        return self.backend.address(array), array.size, _CODES[array.dtype.str[1:]]

    def _call(
        self,
        words: tuple[str, ...],
        flat: Array | None,
        give: Give,
        pack: Callable[[], object] = do_nothing,
        unpack: Callable[[], object] = do_nothing,
    ) -> NcclCall:
        return NcclCall(self, words, 0 if flat is None else flat.size, give, pack, unpack)
