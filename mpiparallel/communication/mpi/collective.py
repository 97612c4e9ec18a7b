"""A collective as MPI is to carry it out, said once for the call that blocks and for the one that only starts it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from mpiparallel.communication import arguments
from mpiparallel.communication.mpi import large_messages
from mpiparallel.communication.mpi.library import MPI, OPERATIONS
from mpiparallel.communication.mpi.mpi_world import MpiWorld
from mpiparallel.communication.mpi.request_waiting import already_ended
from mpiparallel.communication.protocol import Completion, Reduction
from mpiparallel.communication.wire_dtypes import decode, encode, wire_of
from mpiparallel.dataclass import dataclass


@dataclass(frozen=True)
class MpiCollective:
    """What a collective sends, and what is done with what has arrived.

    ``name``, ``details`` and ``count``, in elements, are compared with those of the other members. ``function`` is its
    name in MPI; each of ``messages`` has the arguments of one call. Where one message cannot hold it, ``in_pieces``
    does it instead. ``landed`` is called when all has arrived; until then ``sent`` is kept.
    """

    name: str
    details: tuple[str, ...]
    count: int
    function: str
    messages: Sequence[tuple[Any, ...]]
    sent: NDArray[Any]
    landed: Completion = already_ended
    in_pieces: Callable[[], None] | None = None


def all_reduce(world: MpiWorld, name: str, array: NDArray[Any], operation: Reduction) -> MpiCollective:
    """Return an Allreduce in place of ``array``."""
    view = arguments.writable(name, array)
    wire = wire_of(view.dtype, operation)
    travelling, reduction = encode(view, wire), OPERATIONS[wire.operation]
    pieces = large_messages.pieces(world, travelling)
    return MpiCollective(
        name,
        (view.dtype.str, operation),
        view.size,
        "Allreduce",
        [(MPI.IN_PLACE, piece, reduction) for piece in pieces],
        travelling,
        lambda: decode(travelling, view, wire),
    )
