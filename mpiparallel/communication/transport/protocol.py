"""What every way between devices can do: calls that are bound to arrays once, and run many times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mpiparallel.backend.protocol import Array
from mpiparallel.communication.protocol import Communicator, Completion, Reduction
from mpiparallel.communication.transport.in_flight import InFlight


def do_nothing() -> None:
    """Do nothing, where nothing has to be done."""


class TransportCall(Protocol):
    """A collective bound to arrays; all members run it together, in the same order as all their other calls."""

    def run(self) -> None:
        """Do it. Work given to the device afterwards finds the result."""

    def start(self) -> Completion:
        """Begin. The result is there for what is given to the device after what is returned has been called."""


class Transport(Protocol):
    """How a group of ranks moves arrays of their backend, which are in C order.

    The methods are those of ``Communicator``, with the same results; they return the call instead of making it. All
    members bind the same calls in the same order. Sums are formed in one order on all members: that of MPI or NCCL,
    which either chooses, or ascending by member.
    """

    @property
    def name(self) -> str:
        """Which way it is, as in settings."""

    @property
    def communicator(self) -> Communicator:
        """The members."""

    def graph_calls(self) -> InFlight | None:
        """Return what looks after these calls in a graph; None where the host has a part in them."""

    def all_reduce(self, array: Array, operation: Reduction = "sum") -> TransportCall:
        """Return what replaces ``array`` by the reduction over all members."""

    def all_gather(self, source: Array, target: Array) -> TransportCall:
        """Return what puts the ``source`` of every member into ``target``, member after member."""

    def reduce_scatter(self, source: Array, target: Array, operation: Reduction = "sum") -> TransportCall:
        """Return what reduces ``source``, made of equal blocks, and leaves block ``rank`` in ``target``."""

    def all_to_all(self, source: Array, target: Array) -> TransportCall:
        """Return what sends block ``k`` of ``source`` to member ``k``, and fills block ``k`` of ``target`` from it."""

    def broadcast(self, array: Array, root: int) -> TransportCall:
        """Return what replaces ``array`` by that of member ``root``."""

    def reduce(self, array: Array, root: int, operation: Reduction = "sum") -> TransportCall:
        """Return what replaces ``array`` of member ``root`` by the reduction; the others keep theirs."""

    def exchange(self, sends: Mapping[int, Array], receives: Mapping[int, Array]) -> TransportCall:
        """Return what sends the bytes ``sends[k]`` to member ``k``, and fills ``receives[k]`` from it.

        All members bind it together. Lengths that differ at the two ends raise ``CommunicationError``, here or when it
        runs.
        """
