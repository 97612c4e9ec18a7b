"""What every world of ranks can do: the one interface to MPI ranks, threads and a process alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.shared_memory import SharedMemory
from mpiparallel.pipeline.action import Action

Reduction = Literal["sum", "max", "min", "prod"]
Completion = Callable[[], None]
"""What ends a collective that was started: it waits until the result is there."""


class Message(Protocol):
    """A message between two members, for an array that stays: sent once or many times.

    It holds what MPI needs for it until it is dropped. The array must be left alone from ``start`` to ``end``.
    """

    def start(self) -> None:
        """Send what the array shows now, or begin to fill it; returns at once. It must have ended the last time."""

    def end(self) -> None:
        """Wait until it has ended, if it was started; raises ``CommunicationError`` where the two arrays are unlike."""


class NotedCall(Protocol):
    """A collective that is written down, and carried out by something else than the communicator.

    Leaving its ``with`` block writes down that it has ended.
    """

    def __enter__(self) -> object: ...

    def __exit__(self, *error: Any) -> object: ...

    def going_on(self) -> None:
        """Write down that the process goes on while the call does too."""

    def resumed(self) -> NotedCall:
        """Write down that the process now waits for it."""


class StridedExchange(Protocol):
    """Views of arrays that are to travel between members, once or many times; it keeps the arrays alive."""

    def run(self) -> None:
        """Move what the views show now; all members call it."""

    def free(self) -> None:
        """Give back what it holds; it must not be run afterwards. Needs nobody else."""


class Communicator(Protocol):
    """Ranks that exchange NumPy arrays.

    Every method blocks, but those that start a collective: they return what ends it. Until then the arrays must be left
    alone; other collectives may run meanwhile. Collectives must be called by all members in the same order, with arrays
    of equal dtype and size. Arrays are C-contiguous; 0-d and empty ones are legal. Nothing is pickled. Members are
    counted 0 to ``size - 1`` in the order of their world ranks; ``ranks[member]`` is the world rank. Wrong use raises
    ``CommunicationError``.
    """

    @property
    def rank(self) -> int:
        """The index of this process among the members."""

    @property
    def size(self) -> int:
        """The number of members."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The world ranks of the members, ascending."""

    @property
    def hosts(self) -> tuple[int, ...]:
        """For each member the lowest world rank on its host, a member or not."""

    @property
    def host_ranks(self) -> tuple[int, ...]:
        """The world ranks of those members that run on this host, ascending."""

    @property
    def overlaps(self) -> bool:
        """Whether it pays to start collectives early and compute meanwhile; the same on every rank of the world."""

    @property
    def library(self) -> str:
        """The name and version of what carries the messages, as one line; what was measured with it holds for it."""

    @property
    def can_share(self) -> bool:
        """Whether ``share`` works: on every host the ranks can see each other's memory; the same on every rank."""

    @property
    def step_flag(self) -> StepFlag:
        """What ``start_step_check`` passes on; one for all communicators of a world on this rank."""

    def labelled(self, label: str) -> Communicator:
        """Return the same members, for calls of a program that all of them have compiled alike.

        Where something hangs the calls are known by their ``label``; they are not compared once more each time.
        """

    def beginning(self, stage: int, action: Action | None) -> Completion:
        """Return what to call where this rank begins an action of a stage of a pipeline, or, with None, ends a step.

        Where something hangs or fails it is known by that; faults on purpose strike there. It is no communication.
        """

    @property
    def kept(self) -> dict[str, Any]:
        """What others keep for these members on this rank; what has ``free`` is freed before the communicator is."""

    def noted(self, operation: str, *details: Any, count: int = 0) -> NotedCall:
        """Write down a collective that something else carries out, such as a device's library, and compare it.

        Raises ``CommunicationError`` on all members where they call something else.
        """

    def check_members(self) -> None:
        """Raise ``RankFailureError`` where a member is known to have died, ``CommunicationError`` on threads.

        It needs nobody else, and does not wait.
        """

    def start_step_check(self, fingerprint: str) -> Completion:
        """Start to hold a ``fingerprint`` against those of all members, and to pass the ``step_flag`` on.

        What is returned waits for it; at the latest the next call of any communicator of the world does. Either raises
        ``CommunicationError`` on all members if their fingerprints differ, before it does anything.
        """

    def barrier(self) -> None:
        """Wait until every member is here."""

    def rest(self) -> None:
        """Wait until every member is here, asleep: for ranks that have nothing left to do while others work."""

    def all_reduce(self, array: NDArray[Any], operation: Reduction = "sum") -> None:
        """Replace ``array`` by the reduction over all members, in place and with the same result on each of them.

        ``bool`` sums are logical or, products logical and. ``float16`` sums and products are formed in ``float32``.
        NaN wins every ``max`` and ``min``. Complex numbers have no ``max`` and ``min``.
        """

    def start_all_reduce(self, array: NDArray[Any], operation: Reduction = "sum") -> Completion:
        """Start ``all_reduce``."""

    def all_gather(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Put the ``source`` of every member into ``target``, member after member."""

    def start_all_gather(self, source: NDArray[Any], target: NDArray[Any]) -> Completion:
        """Start ``all_gather``."""

    def reduce_scatter(self, source: NDArray[Any], target: NDArray[Any], operation: Reduction = "sum") -> None:
        """Reduce ``source``, made of ``size`` equal blocks, and leave block ``rank`` in ``target``."""

    def start_reduce_scatter(
        self, source: NDArray[Any], target: NDArray[Any], operation: Reduction = "sum"
    ) -> Completion:
        """Start ``reduce_scatter``."""

    def all_to_all(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Send block ``k`` of ``source`` to member ``k``; block ``k`` of ``target`` comes from member ``k``."""

    def all_to_all_v(
        self,
        source: NDArray[np.uint8],
        source_counts: Sequence[int],
        target: NDArray[np.uint8],
        target_counts: Sequence[int],
    ) -> None:
        """Exchange blocks of unequal size: bytes, packed in the order of the members without gaps.

        ``source_counts[k]`` bytes go to member ``k``, ``target_counts[k]`` bytes come from it. Totals may
        exceed 2 GiB where the blocks are multiples of 16 bytes.
        """

    def exchange(self, sends: Mapping[int, NDArray[np.uint8]], receives: Mapping[int, NDArray[np.uint8]]) -> None:
        """Send ``sends[k]`` to member ``k`` and fill ``receives[k]`` from it: contiguous bytes, of any length.

        All members call it; one that has no traffic passes empty mappings, and only those named wait for each other.
        Who names a member must be named by it. A member may name itself. Lengths that differ at the two ends raise
        ``CommunicationError`` where they are received at the latest.
        """

    def strided_exchange(
        self, sends: Mapping[int, Sequence[NDArray[Any]]], receives: Mapping[int, Sequence[NDArray[Any]]]
    ) -> StridedExchange:
        """Prepare to send the views ``sends[k]`` to member ``k`` and to fill the views ``receives[k]`` from it.

        All members call it. Views have any strides, dtype and length, and are not copied to other memory on their way
        where the library can do without. Both ends list equal shapes and dtypes in one order, or
        ``CommunicationError`` is raised on all members.
        """

    def share(self, nbytes: int) -> SharedMemory:
        """Return memory that the members of a host share: a block of ``nbytes`` bytes of each, not initialised.

        All members call it; lengths may differ. If a block cannot be had, ``MemoryError`` is raised on all members,
        before any of them waits for the block. Raises ``CommunicationError`` where ``can_share`` is false.
        """

    def world_of(self, ranks: Sequence[int]) -> Communicator:
        """Return a new world whose rank ``i`` is ``ranks[i]`` of this one, in any order.

        The ranks are world ranks of members. Only they call it, all with the same list; each call makes another world,
        which lives until its ``free``.
        """

    def broadcast(self, array: NDArray[Any], root: int) -> None:
        """Replace ``array`` by that of member ``root``."""

    def reduce(self, array: NDArray[Any], root: int, operation: Reduction = "sum") -> None:
        """Replace ``array`` of member ``root`` by the reduction over all members; the others keep theirs."""

    def send(self, array: NDArray[Any], target: int, tag: int = 0) -> None:
        """Send ``array`` to member ``target``; may wait until it is received, so two ranks must not both send first."""

    def receive(self, array: NDArray[Any], source: int, tag: int = 0) -> None:
        """Fill ``array`` with what member ``source`` sends under ``tag``."""

    def message_to(self, array: NDArray[Any], target: int, tag: int = 0) -> Message:
        """Prepare to send ``array`` to member ``target``; a send ends at the latest when that has received it."""

    def message_from(self, array: NDArray[Any], source: int, tag: int = 0) -> Message:
        """Prepare to fill ``array`` with what member ``source`` sends under ``tag``, in the order of the starts."""

    def group(self, ranks: Sequence[int]) -> Communicator:
        """Return the communicator of some members, given by their world ranks, this one among them.

        Only the named ranks call it. The result is kept: asking again costs nothing and needs nobody else.
        """

    def any_true(self, flag: bool) -> bool:
        """Tell every member whether ``flag`` is true on any of them."""

    def free(self) -> None:
        """Give back what the communicator holds, all members together; it must not be used afterwards."""


class StepFlag:
    """What this rank has to say to all, ``own``, and the largest that any rank has said, ``heard``.

    Both are numbers from 0. All ranks that have begun the same step have heard the same. ``batch`` stands for what this
    rank is fed in a step. It is a number below 2 to the power of 63, or 0. All hear whether these differ.

    >>> from mpiparallel.communication.threads import alone
    >>> world = alone()
    >>> world.step_flag.own = 1
    >>> world.start_step_check("a step")()
    >>> world.step_flag.heard
    1
    """

    def __init__(self) -> None:
        self.own = 0
        self.heard = 0
        self.batch = 0
        self.batches_differ = False


class UnwrittenCall:
    """Stands where a call would be written down: threads and simulated ranks write none.

    >>> with UnwrittenCall() as call:
    ...     call.going_on()
    """

    def __enter__(self) -> UnwrittenCall:
        return self

    def __exit__(self, *error: object) -> None:
        """Write nothing."""

    def going_on(self) -> None:
        """Write nothing."""

    def resumed(self) -> UnwrittenCall:
        """Write nothing."""
        return self
