"""The communicator of MPI ranks."""

from __future__ import annotations

import atexit
import copy
import time
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication import arguments
from mpiparallel.communication.attributes import free_all
from mpiparallel.communication.mpi import large_messages, shared_memory
from mpiparallel.communication.mpi.collective import MpiCollective, all_reduce
from mpiparallel.communication.mpi.collective_monitor import CollectiveMonitor
from mpiparallel.communication.mpi.library import MPI, OPERATIONS, check_members, reporting
from mpiparallel.communication.mpi.mpi_world import MpiWorld
from mpiparallel.communication.mpi.persistent_message import PersistentMessage
from mpiparallel.communication.mpi.point_to_point import check_count, exchange
from mpiparallel.communication.mpi.request_waiting import NAP, already_ended, completion, wait_napping
from mpiparallel.communication.mpi.strided_exchange import MpiExchange, agree_on_views
from mpiparallel.communication.protocol import (
    Communicator,
    Completion,
    Message,
    NotedCall,
    Reduction,
    StepFlag,
    StridedExchange,
)
from mpiparallel.communication.shared_memory import SharedMemory
from mpiparallel.communication.wire_dtypes import decode, encode, landing, wire_of
from mpiparallel.pipeline.action import Action


class MpiCommunicator:
    """MPI ranks. Reductions of floats are summed in an order that the MPI library chooses, equal on all ranks.

    MPI does not promise to notice a call that does not match that of the other members.
    """

    def __init__(self, comm: MPI.Intracomm, ranks: tuple[int, ...], world: MpiWorld) -> None:
        self.comm = comm
        self._ranks = ranks
        self._world = world
        self._rank = comm.Get_rank()
        self._kept: dict[str, Any] = {}
        self._hosts = tuple(world.hosts[rank] for rank in ranks)
        numbers = [world.numbers[rank] for rank in ranks]
        self._monitor = CollectiveMonitor(self, comm, self._call, numbers, world)

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
    def hosts(self) -> tuple[int, ...]:
        return self._hosts

    @property
    def host_ranks(self) -> tuple[int, ...]:
        own = self._hosts[self._rank]
        return tuple(rank for rank, host in zip(self._ranks, self._hosts, strict=True) if host == own)

    @property
    def library(self) -> str:
        return " ".join(MPI.Get_library_version().split("\0")[0].split("\n")[0].split())

    @property
    def can_share(self) -> bool:
        return self._world.can_share

    @property
    def overlaps(self) -> bool:
        return self._world.overlaps

    @property
    def step_flag(self) -> StepFlag:
        return self._world.step_check.step_flag

    def labelled(self, label: str) -> Communicator:
        same = copy.copy(self)
        same._monitor = self._monitor.labelled(label)
        return same

    def beginning(self, stage: int, action: Action | None) -> Completion:
        return self._monitor.beginning(stage, action)

    @property
    def kept(self) -> dict[str, Any]:
        return self._kept

    @reporting
    def noted(self, operation: str, *details: Any, count: int = 0) -> NotedCall:
        return self._monitor.compared(operation, *details, count=count)

    @reporting
    def check_members(self) -> None:
        check_members(self.comm, self._ranks)

    @reporting
    def start_step_check(self, fingerprint: str) -> Completion:
        return self._monitor.start_step_check(fingerprint)

    @reporting
    def barrier(self) -> None:
        with self._monitor.compared("barrier"):
            self._call("Barrier")

    @reporting
    def rest(self) -> None:
        # A blocking call would spin: on a machine with more ranks than cores that takes time from those who work.
        with self._monitor.entered("rest") as call:
            call.going_on()
            request = self.comm.Ibarrier()
            while not request.Test():
                time.sleep(NAP)

    @reporting
    def all_reduce(self, array: NDArray[Any], operation: Reduction = "sum") -> None:
        self._run(all_reduce(self._world, "all_reduce", array, operation))

    @reporting
    def start_all_reduce(self, array: NDArray[Any], operation: Reduction = "sum") -> Completion:
        return self._start(all_reduce(self._world, "start_all_reduce", array, operation))

    @reporting
    def all_gather(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        self._run(self._all_gather("all_gather", source, target))

    @reporting
    def start_all_gather(self, source: NDArray[Any], target: NDArray[Any]) -> Completion:
        return self._start(self._all_gather("start_all_gather", source, target))

    @reporting
    def reduce_scatter(self, source: NDArray[Any], target: NDArray[Any], operation: Reduction = "sum") -> None:
        self._run(self._reduce_scatter("reduce_scatter", source, target, operation))

    @reporting
    def start_reduce_scatter(
        self, source: NDArray[Any], target: NDArray[Any], operation: Reduction = "sum"
    ) -> Completion:
        return self._start(self._reduce_scatter("start_reduce_scatter", source, target, operation))

    @reporting
    def all_to_all(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        sent, received = arguments.flat("all_to_all", source), arguments.writable("all_to_all", target)
        arguments.refuse(arguments.pair_problem("all_to_all", sent, received, self.size))
        sent_bytes, received_bytes = arguments.as_bytes(sent), arguments.as_bytes(received)
        with self._monitor.compared("all_to_all", sent.dtype.str, count=sent.size):
            if sent_bytes.size <= self._world.largest_message:
                self._call("Alltoall", [sent_bytes, MPI.BYTE], [received_bytes, MPI.BYTE])
            else:
                self._exchange_all(np.split(sent_bytes, self.size), np.split(received_bytes, self.size))

    @reporting
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
        outgoing = large_messages.side(self._world, sent, source_counts)
        incoming = large_messages.side(self._world, received, target_counts)
        with self._monitor.compared("all_to_all_v"):
            self._call("Alltoallv", outgoing, incoming)

    @reporting
    def exchange(self, sends: Mapping[int, NDArray[np.uint8]], receives: Mapping[int, NDArray[np.uint8]]) -> None:
        arguments.refuse(arguments.exchange_problem(sends, receives, self.size))
        with self._monitor.entered("exchange"):
            exchange(self.comm, sends, receives, self._world.largest_message, self._world.wait)

    @reporting
    def strided_exchange(
        self, sends: Mapping[int, Sequence[NDArray[Any]]], receives: Mapping[int, Sequence[NDArray[Any]]]
    ) -> StridedExchange:
        agree_on_views(self, sends, receives)
        return MpiExchange(self, self._exchange_views, sends, receives)

    @reporting
    def share(self, nbytes: int) -> SharedMemory:
        arguments.refuse(arguments.length_problem("share", nbytes))
        return shared_memory.share(self, nbytes)

    @reporting
    def world_of(self, ranks: Sequence[int]) -> Communicator:
        chosen = arguments.world_members(ranks, self._ranks, self._ranks[self._rank])
        created = self._created(chosen)
        return MpiCommunicator(created, tuple(range(len(chosen))), self._world.of(created, chosen)).freed_at_exit()

    @reporting
    def broadcast(self, array: NDArray[Any], root: int) -> None:
        view = arguments.writable("broadcast", array)
        arguments.refuse(arguments.member_problem("broadcast", root, self.size))
        with self._monitor.compared("broadcast", view.dtype.str, f"root {root}", count=view.size):
            for piece in large_messages.pieces(self._world, arguments.as_bytes(view)):
                self._call("Bcast", [piece, MPI.BYTE], root)

    @reporting
    def reduce(self, array: NDArray[Any], root: int, operation: Reduction = "sum") -> None:
        view = arguments.writable("reduce", array)
        arguments.refuse(arguments.member_problem("reduce", root, self.size))
        wire = wire_of(view.dtype, operation)
        travelling = encode(view, wire)
        with self._monitor.compared("reduce", view.dtype.str, operation, f"root {root}", count=view.size):
            for piece in large_messages.pieces(self._world, travelling):
                given = (MPI.IN_PLACE, piece) if self._rank == root else (piece, None)
                self._call("Reduce", *given, OPERATIONS[wire.operation], root)
        if self._rank == root:
            decode(travelling, view, wire)

    @reporting
    def send(self, array: NDArray[Any], target: int, tag: int = 0) -> None:
        view = arguments.flat("send", array)
        arguments.refuse(arguments.peer_problem("send", target, self._rank, self.size, tag))
        with self._monitor.message("send", target, view.size):
            for piece in large_messages.pieces(self._world, arguments.as_bytes(view)):
                self.comm.Send([piece, MPI.BYTE], target, tag)

    @reporting
    def receive(self, array: NDArray[Any], source: int, tag: int = 0) -> None:
        view = arguments.writable("receive", array)
        arguments.refuse(arguments.peer_problem("receive", source, self._rank, self.size, tag))
        with self._monitor.message("receive", source, view.size):
            for piece in large_messages.pieces(self._world, arguments.as_bytes(view)):
                self._receive_piece(piece, source, tag)

    @reporting
    def message_to(self, array: NDArray[Any], target: int, tag: int = 0) -> Message:
        view = arguments.flat("message_to", array)
        arguments.refuse(arguments.peer_problem("message_to", target, self._rank, self.size, tag))
        pieces = large_messages.pieces(self._world, arguments.as_bytes(view))
        requests = [self.comm.Send_init([piece, MPI.BYTE], target, tag) for piece in pieces]
        enter = partial(self._monitor.message, "start_send", target, view.size)
        return PersistentMessage(view, enter, requests, self._world)

    @reporting
    def message_from(self, array: NDArray[Any], source: int, tag: int = 0) -> Message:
        view = arguments.writable("message_from", array)
        arguments.refuse(arguments.peer_problem("message_from", source, self._rank, self.size, tag))
        pieces = list(large_messages.pieces(self._world, arguments.as_bytes(view)))
        requests = [self.comm.Recv_init([piece, MPI.BYTE], source, tag) for piece in pieces]
        enter = partial(self._monitor.message, "start_receive", source, view.size)
        return PersistentMessage(
            view, enter, requests, self._world, lambda at, told: check_count(told, pieces[at].size, source, self._rank)
        )

    @reporting
    def group(self, ranks: Sequence[int]) -> Communicator:
        own = self._ranks[self._rank]
        members = arguments.group_members(ranks, self._ranks, own)
        if members == self._ranks:
            return self
        groups = self._world.groups
        if members not in groups:
            groups[members] = MpiCommunicator(self._created(members), members, self._world)
        return groups[members]

    @reporting
    def any_true(self, flag: bool) -> bool:
        return self._monitor.any_true(flag)

    def freed_at_exit(self) -> MpiCommunicator:
        """Return this communicator; if its world must be freed, it is at the end of the program at the latest."""
        if self._world.grown:
            atexit.register(self.free)
        return self

    @reporting
    def free(self) -> None:
        atexit.unregister(self.free)
        free_all(self._kept)
        groups = self._world.groups
        if self.comm == self._world.comm:
            # In one order on all ranks, because freeing a communicator may wait for its members.
            for members in sorted(groups):
                groups[members].free()
            self._world.free_datatypes()
        else:
            groups.pop(self._ranks, None)
        self.comm.Free()

    def _created(self, members: Sequence[int]) -> MPI.Intracomm:
        """Return the MPI communicator of some world ranks, in their order; only they call it."""
        # Threads may make communicators at the same time; the tag keeps their messages apart.
        tag = zlib.crc32(np.array(members).tobytes()) % arguments.LARGEST_TAG
        chosen = self._world.comm.Get_group().Incl(self._world.places(members))
        created = self._world.comm.Create_group(chosen, tag)
        chosen.Free()
        return self._world.keep(created)

    def _all_gather(self, name: str, source: NDArray[Any], target: NDArray[Any]) -> MpiCollective:
        block, whole = arguments.flat(name, source), arguments.writable(name, target)
        arguments.refuse(arguments.blocks_problem(name, whole, block, self.size))
        sent, received = arguments.as_bytes(block), arguments.as_bytes(whole)

        def exchange_blocks() -> None:
            self._exchange_all([sent] * self.size, np.split(received, self.size))

        return MpiCollective(
            name,
            (block.dtype.str,),
            block.size,
            "Allgather",
            [([sent, MPI.BYTE], [received, MPI.BYTE])],
            sent,
            in_pieces=exchange_blocks if received.size > self._world.largest_message else None,
        )

    def _reduce_scatter(
        self, name: str, source: NDArray[Any], target: NDArray[Any], operation: Reduction
    ) -> MpiCollective:
        whole, block = arguments.flat(name, source), arguments.writable(name, target)
        arguments.refuse(arguments.blocks_problem(name, whole, block, self.size))
        wire = wire_of(whole.dtype, operation)
        travelling, received, reduction = encode(whole, wire), landing(block, wire), OPERATIONS[wire.operation]

        def reduce_blocks() -> None:
            self._reduce_blocks(travelling, received, reduction)

        return MpiCollective(
            name,
            (whole.dtype.str, operation),
            whole.size,
            "Reduce_scatter_block",
            [(travelling, received, reduction)],
            travelling,
            lambda: decode(received, block, wire),
            reduce_blocks if travelling.nbytes > self._world.largest_message else None,
        )

    def _run(self, collective: MpiCollective) -> None:
        with self._monitor.compared(collective.name, *collective.details, count=collective.count):
            if collective.in_pieces is None:
                for message in collective.messages:
                    self._call(collective.function, *message)
            else:
                collective.in_pieces()
        collective.landed()

    def _start(self, collective: MpiCollective) -> Completion:
        if collective.in_pieces is not None:
            self._run(collective)
            return already_ended
        call = self._monitor.compared(collective.name, *collective.details, count=collective.count)
        start = getattr(self.comm, _nonblocking(collective.function))
        requests = [start(*message) for message in collective.messages]
        return call.ended_by(completion(requests, self._world.wait, collective.landed, collective.sent))

    def _call(self, collective: str, *buffers: Any) -> None:
        """Run a collective of MPI; where ranks share cores, yield and then nap while it waits for those who work.

        A blocking call spins, and even one that yields keeps much of the core that its peers need.
        """
        if not self._world.crowded:
            getattr(self.comm, collective)(*buffers)
            return
        wait_napping(getattr(self.comm, _nonblocking(collective))(*buffers))

    def _receive_piece(self, piece: NDArray[np.uint8], source: int, tag: int) -> None:
        status = MPI.Status()
        self.comm.Recv([piece, MPI.BYTE], source, tag, status)
        check_count(status, piece.size, source, self._rank)

    def _exchange_views(self, collective: str, *buffers: Any) -> None:
        with self._monitor.entered("strided_exchange"):
            self._call(collective, *buffers)

    def _exchange_all(self, sent: Sequence[NDArray[np.uint8]], received: Sequence[NDArray[np.uint8]]) -> None:
        """Send ``sent[k]`` to member ``k`` and fill ``received[k]`` from it."""
        self.exchange(dict(enumerate(sent)), dict(enumerate(received)))

    def _reduce_blocks(self, source: NDArray[Any], target: NDArray[Any], operation: MPI.Op) -> None:
        for member, block in enumerate(np.split(source, self.size)):
            filled = large_messages.pieces(self._world, target) if member == self._rank else None
            for piece in large_messages.pieces(self._world, block):
                self._call("Reduce", piece, next(filled) if filled else None, operation, member)


def _nonblocking(function: str) -> str:
    return f"I{function.lower()}"
