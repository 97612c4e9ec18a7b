"""The communicator of thread ranks, which read each other's arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication import arguments
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.attributes import free_all
from mpiparallel.communication.protocol import (
    Communicator,
    Completion,
    Message,
    NotedCall,
    Reduction,
    StepFlag,
    StridedExchange,
    UnwrittenCall,
)
from mpiparallel.communication.shared_memory import SharedMemory
from mpiparallel.communication.threads.exchange import ThreadExchange, unmatched_bytes, unmatched_views
from mpiparallel.communication.threads.rendezvous import Letter, MemberCall, ThreadWorld
from mpiparallel.communication.wire_dtypes import UFUNCS, Wire, decode, encode, wire_of
from mpiparallel.pipeline.action import Action


class ThreadCommunicator:
    """Threads that read each other's arrays. Reductions go in the order of the members, so all ranks get the same bits.

    A call that does not match that of the other members raises ``CommunicationError`` on all of them.

    Parameters
    ----------
    world : ThreadWorld
        What the threads share.
    ranks : tuple of int
        The world ranks of its members, ascending.
    world_rank : int
        Of this thread.
    step_flag : StepFlag, optional
        What the step check passes on.

    Examples
    --------
    ``run_world`` makes them:

    >>> import numpy as np
    >>> from mpiparallel.communication.threads import run_world
    >>> def total(communicator):
    ...     array = np.array([communicator.rank])
    ...     communicator.all_reduce(array)
    ...     return array.item()
    >>> run_world(3, total)
    [3, 3, 3]
    """

    def __init__(
        self, world: ThreadWorld, ranks: tuple[int, ...], world_rank: int, step_flag: StepFlag | None = None
    ) -> None:
        self._world = world
        self._ranks = ranks
        self._world_rank = world_rank
        self._rank = ranks.index(world_rank)
        self._rendezvous = world.rendezvous(ranks)
        self._groups: dict[tuple[int, ...], ThreadCommunicator] = {}
        self._step_flag = StepFlag() if step_flag is None else step_flag
        self._kept: dict[str, Any] = {}

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
        return tuple(self._world.hosts[rank] for rank in self._ranks)

    @property
    def host_ranks(self) -> tuple[int, ...]:
        own = self._world.hosts[self._world_rank]
        return tuple(rank for rank in self._ranks if self._world.hosts[rank] == own)

    @property
    def library(self) -> str:
        return "threads"

    @property
    def can_share(self) -> bool:
        return True

    @property
    def overlaps(self) -> bool:
        return self._world.overlaps

    @property
    def step_flag(self) -> StepFlag:
        return self._step_flag

    def labelled(self, label: str) -> Communicator:
        return self

    def beginning(self, stage: int, action: Action | None) -> Completion:
        return lambda: None

    @property
    def kept(self) -> dict[str, Any]:
        return self._kept

    def noted(self, operation: str, *details: Any, count: int = 0) -> NotedCall:
        return UnwrittenCall()

    def check_members(self) -> None:
        self._world.check(self._world_rank, self._ranks)

    def start_step_check(self, fingerprint: str) -> Completion:
        flag = self._step_flag
        words = self._meet(("begin_step", fingerprint), None, (flag.own, flag.batch), list)
        flag.heard = max(flag.heard, *(own for own, _ in words))
        flag.batches_differ = len({batch for _, batch in words}) > 1
        return lambda: None

    def barrier(self) -> None:
        self._meet(("barrier",), None, None, list)

    def rest(self) -> None:
        self.barrier()

    def all_reduce(self, array: NDArray[Any], operation: Reduction = "sum") -> None:
        view = arguments.writable("all_reduce", array)
        wire = wire_of(view.dtype, operation)
        signature = ("all_reduce", view.dtype.str, view.size, operation)
        result = self._meet(signature, None, encode(view, wire), partial(_reduced, wire))
        decode(result, view, wire)

    def start_all_reduce(self, array: NDArray[Any], operation: Reduction = "sum") -> Completion:
        reduced = arguments.writable("start_all_reduce", array).copy()
        self.all_reduce(reduced, operation)
        return lambda: _arrive(reduced, array)

    def all_gather(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        block, whole = arguments.flat("all_gather", source), arguments.writable("all_gather", target)
        problem = arguments.blocks_problem("all_gather", whole, block, self.size)
        signature = ("all_gather", block.dtype.str, block.size, whole.size)
        whole[:] = self._meet(signature, problem, block, np.concatenate)

    def start_all_gather(self, source: NDArray[Any], target: NDArray[Any]) -> Completion:
        gathered = np.empty_like(arguments.writable("start_all_gather", target))
        self.all_gather(source, gathered)
        return lambda: _arrive(gathered, target)

    def reduce_scatter(self, source: NDArray[Any], target: NDArray[Any], operation: Reduction = "sum") -> None:
        whole, block = arguments.flat("reduce_scatter", source), arguments.writable("reduce_scatter", target)
        wire = wire_of(whole.dtype, operation)
        problem = arguments.blocks_problem("reduce_scatter", whole, block, self.size)
        signature = ("reduce_scatter", whole.dtype.str, whole.size, block.size, operation)
        own = slice(self._rank * block.size, (self._rank + 1) * block.size)
        result = self._meet(signature, problem, encode(whole, wire), partial(_reduced, wire))
        decode(result[own], block, wire)

    def start_reduce_scatter(
        self, source: NDArray[Any], target: NDArray[Any], operation: Reduction = "sum"
    ) -> Completion:
        block = np.empty_like(arguments.writable("start_reduce_scatter", target))
        self.reduce_scatter(source, block, operation)
        return lambda: _arrive(block, target)

    def all_to_all(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        sent, received = arguments.flat("all_to_all", source), arguments.writable("all_to_all", target)
        problem = arguments.pair_problem("all_to_all", sent, received, self.size)
        length = sent.size // self.size
        with self._together(("all_to_all", sent.dtype.str, sent.size, received.size), problem, sent) as parts:
            for member, part in enumerate(parts):
                block = part[self._rank * length : (self._rank + 1) * length]
                received[member * length : (member + 1) * length] = block

    def all_to_all_v(
        self,
        source: NDArray[np.uint8],
        source_counts: Sequence[int],
        target: NDArray[np.uint8],
        target_counts: Sequence[int],
    ) -> None:
        sent, received = arguments.flat("all_to_all_v", source), arguments.writable("all_to_all_v", target)
        problem = arguments.counts_problem("all_to_all_v", "source", sent, source_counts, self.size)
        problem = problem or arguments.counts_problem("all_to_all_v", "target", received, target_counts, self.size)
        payload = (sent, tuple(source_counts), tuple(target_counts))
        with self._together(("all_to_all_v",), problem, payload, _unmatched_counts) as parts:
            for member, (part, counts, _) in enumerate(parts):
                start = sum(counts[: self._rank])
                end = sum(target_counts[: member + 1])
                received[end - target_counts[member] : end] = part[start : start + counts[self._rank]]

    def exchange(self, sends: Mapping[int, NDArray[np.uint8]], receives: Mapping[int, NDArray[np.uint8]]) -> None:
        problem = arguments.exchange_problem(sends, receives, self.size)
        with self._together(("exchange",), problem, (sends, receives), unmatched_bytes) as parts:
            for member, view in receives.items():
                view[:] = parts[member][0][self._rank]

    def strided_exchange(
        self, sends: Mapping[int, Sequence[NDArray[Any]]], receives: Mapping[int, Sequence[NDArray[Any]]]
    ) -> StridedExchange:
        problem = arguments.views_problem(sends, receives, self.size)
        with self._together(("strided_exchange",), problem, (sends, receives), unmatched_views) as parts:
            copies = [
                (view, source)
                for member, views in receives.items()
                for view, source in zip(views, parts[member][0].get(self._rank, ()), strict=True)
            ]
        return ThreadExchange(self, copies)

    def share(self, nbytes: int) -> SharedMemory:
        arguments.refuse(arguments.length_problem("share", nbytes))
        with failing_together(self, MemoryError):
            own = np.empty(nbytes, np.uint8)
        with self._together(("share",), None, own) as parts:
            blocks = {rank: part for rank, part in zip(self._ranks, parts, strict=True) if rank in self.host_ranks}
        return SharedMemory(own, {self._ranks.index(rank): block for rank, block in blocks.items()})

    def world_of(self, ranks: Sequence[int]) -> Communicator:
        chosen = arguments.world_members(ranks, self._ranks, self._world_rank)
        inner = self._world.inner(chosen, self._world_rank)
        return ThreadCommunicator(inner, tuple(range(len(chosen))), chosen.index(self._world_rank))

    def broadcast(self, array: NDArray[Any], root: int) -> None:
        view = arguments.writable("broadcast", array)
        problem = arguments.member_problem("broadcast", root, self.size)
        with self._together(("broadcast", view.dtype.str, view.size, root), problem, view) as parts:
            if self._rank != root:
                view[:] = parts[root]

    def reduce(self, array: NDArray[Any], root: int, operation: Reduction = "sum") -> None:
        view = arguments.writable("reduce", array)
        wire = wire_of(view.dtype, operation)
        problem = arguments.member_problem("reduce", root, self.size)
        signature = ("reduce", view.dtype.str, view.size, root, operation)
        result = self._meet(signature, problem, encode(view, wire), partial(_reduced, wire))
        if self._rank == root:
            decode(result, view, wire)

    def send(self, array: NDArray[Any], target: int, tag: int = 0) -> None:
        message = self._sent("send", array, target, tag)
        message.start()
        message.end()

    def receive(self, array: NDArray[Any], source: int, tag: int = 0) -> None:
        message = self._wanted("receive", array, source, tag)
        message.start()
        message.end()

    def message_to(self, array: NDArray[Any], target: int, tag: int = 0) -> Message:
        return self._sent("message_to", array, target, tag)

    def message_from(self, array: NDArray[Any], source: int, tag: int = 0) -> Message:
        return self._wanted("message_from", array, source, tag)

    def _sent(self, call: str, array: NDArray[Any], target: int, tag: int) -> Message:
        view = arguments.flat(call, array)
        arguments.refuse(arguments.peer_problem(call, target, self._rank, self.size, tag))
        mailbox = self._world.mailbox(self._world_rank, self._ranks[target], self._ranks, tag)
        return ThreadMessage(partial(mailbox.send, view), mailbox.wait_sent, mailbox.take_back)

    def _wanted(self, call: str, array: NDArray[Any], source: int, tag: int) -> Message:
        view = arguments.writable(call, array)
        arguments.refuse(arguments.peer_problem(call, source, self._rank, self.size, tag))
        mailbox = self._world.mailbox(self._ranks[source], self._world_rank, self._ranks, tag)
        return ThreadMessage(partial(mailbox.want, view), mailbox.wait_received, mailbox.take_back)

    def group(self, ranks: Sequence[int]) -> Communicator:
        members = arguments.group_members(ranks, self._ranks, self._world_rank)
        if members == self._ranks:
            return self
        if members not in self._groups:
            self._groups[members] = ThreadCommunicator(self._world, members, self._world_rank, self._step_flag)
        return self._groups[members]

    def any_true(self, flag: bool) -> bool:
        array = np.array([flag])
        self.all_reduce(array, "max")
        return bool(array[0])

    def free(self) -> None:
        free_all(self._kept)
        self._groups.clear()
        if self.size == self._world.size:
            self._world.leave(self._world_rank)

    def _meet(
        self,
        signature: tuple[object, ...],
        problem: str | None,
        payload: Any,
        make: Callable[[list[Any]], Any],
        mismatch: Callable[[list[Any]], str | None] | None = None,
    ) -> Any:
        """Return what ``make`` gives for the payloads of all members: the last of them to come makes it, for all."""
        rendezvous = self._rendezvous
        rendezvous.calls[self._rank] = MemberCall(signature, problem, payload)

        def settle() -> None:
            calls = [call for call in rendezvous.calls if call is not None]
            payloads = [call.payload for call in calls]
            disagreement = self._disagreement(calls) or (mismatch and mismatch(payloads)) or None
            rendezvous.settled = disagreement, None if disagreement else make(payloads)

        rendezvous.wait(self._world_rank, str(signature[0]), settle)
        disagreement, made = rendezvous.settled
        arguments.refuse(disagreement)
        return made

    @contextmanager
    def _together(
        self,
        signature: tuple[object, ...],
        problem: str | None,
        payload: Any,
        mismatch: Callable[[list[Any]], str | None] | None = None,
    ) -> Iterator[list[Any]]:
        """Give the payloads of all members to the body; no member goes on before all bodies have ended."""
        yield self._meet(signature, problem, payload, list, mismatch)
        self._rendezvous.wait(self._world_rank, str(signature[0]))

    def _disagreement(self, calls: list[MemberCall]) -> str | None:
        for member, call in enumerate(calls):
            if call.signature != calls[0].signature:
                return (
                    f"rank {self._ranks[member]} calls {_shown(call)} while rank {self._ranks[0]} calls "
                    f"{_shown(calls[0])}; all ranks must make the same calls in the same order"
                )
            if call.problem:
                return f"rank {self._ranks[member]}: {call.problem}"
        return None


class ThreadMessage:
    """A message between two threads, seen from one of its ends."""

    def __init__(
        self, put: Callable[[], Letter], wait: Callable[[Letter], str | None], take_back: Callable[[Letter], None]
    ) -> None:
        self._put = put
        self._wait = wait
        self._take_back = take_back
        self._letter: Letter | None = None

    def __del__(self) -> None:
        if self._letter is not None:
            self._take_back(self._letter)

    def start(self) -> None:
        arguments.refuse(None if self._letter is None else "a message was started again before it has ended")
        self._letter = self._put()

    def end(self) -> None:
        if self._letter is not None:
            letter, self._letter = self._letter, None
            arguments.refuse(self._wait(letter))


def _arrive(result: NDArray[Any], array: NDArray[Any]) -> None:
    array.reshape(-1)[...] = result.reshape(-1)


def _reduced(wire: Wire, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    result = parts[0].copy()
    with np.errstate(all="ignore"):
        for part in parts[1:]:
            UFUNCS[wire.operation](result, part, out=result)
    return result


def _unmatched_counts(payloads: list[Any]) -> str | None:
    for source, (_, source_counts, _) in enumerate(payloads):
        for target, (_, _, target_counts) in enumerate(payloads):
            if source_counts[target] != target_counts[source]:
                return (
                    f"all_to_all_v: member {source} sends {source_counts[target]} bytes to member {target}, "
                    f"which expects {target_counts[source]}"
                )
    return None


def _shown(call: MemberCall) -> str:
    name, *details = call.signature
    return f"{name}({', '.join(str(detail) for detail in details)})"
