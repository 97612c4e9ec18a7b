"""A plan bound to arrays: for each peer, the views that go to it or come from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.reshard.pieces import Piece
from mpiparallel.reshard.planning.plan import LayoutPair, ReshardPlan, Transfer

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class PeerPieces:
    """What goes to one member, or comes from it: views of arrays, in the order that both ends know."""

    member: int
    tensors: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return sum(piece.nbytes for piece in self.pieces)


@dataclass(frozen=True)
class BoundPlan:
    """The streams of one rank, ascending by member, and what it copies from its own sources to its own targets."""

    outgoing: tuple[PeerPieces, ...]
    incoming: tuple[PeerPieces, ...]
    copies: tuple[tuple[Piece, Piece], ...]

    @property
    def piece_bytes(self) -> tuple[list[list[int]], list[list[int]]]:
        """The lengths of the pieces of each stream, outgoing and incoming."""
        out, into = ([[p.nbytes for p in s.pieces] for s in side] for side in (self.outgoing, self.incoming))
        return out, into

    @property
    def bytes_sent(self) -> int:
        """Bytes that leave this rank."""
        return sum(stream.nbytes for stream in self.outgoing)

    @property
    def bytes_received(self) -> int:
        """Bytes that reach this rank."""
        return sum(stream.nbytes for stream in self.incoming)

    def copy_own(self) -> None:
        """Copy what stays on this rank but not where it is: pairs of target and source."""
        for target, source in self.copies:
            np.copyto(target, source, casting="no")

    def only(self, members: frozenset[int]) -> BoundPlan:
        """Return the streams to and from ``members``, without copies."""

        def chosen(streams: Sequence[PeerPieces]) -> tuple[PeerPieces, ...]:
            return tuple(stream for stream in streams if stream.member in members)

        return BoundPlan(chosen(self.outgoing), chosen(self.incoming), ())


def bind(
    plan: ReshardPlan,
    layouts: Mapping[str, LayoutPair],
    sources: Arrays,
    targets: Arrays,
    communicator: Communicator,
    ranks: Sequence[int] | None = None,
) -> BoundPlan:
    """Return the plan of this rank with the views of its arrays.

    ``sources`` has an array for each tensor of which this rank has a box before the move. ``targets`` has one for each
    of which it has a box after. Tensors that the plan keeps may be left out. ``ranks`` are the numbers that the plan
    gives to the members, where those are not their world ranks. Raises ReshardError, on this rank alone, for an array
    that does not fit its layout. It does so too for a communicator without this rank or one of its peers.
    """
    numbers = tuple(communicator.ranks if ranks is None else ranks)
    members = {rank: member for member, rank in enumerate(numbers)}
    _check_members(plan, numbers, numbers[communicator.rank])
    before, after = _Holdings(sources), _Holdings(targets)
    for tensor in {transfer.tensor for transfer in (*plan.sends, *plan.copies)}:
        before.place(tensor, layouts[tensor][0].box(plan.rank), plan.rank)
    for tensor in {transfer.tensor for transfer in (*plan.receives, *plan.copies)}:
        after.place(tensor, layouts[tensor][1].box(plan.rank), plan.rank)
        _check_dtypes(tensor, sources, targets, plan.rank)

    def streams(transfers: Sequence[Transfer], peer: str, held: _Holdings) -> tuple[PeerPieces, ...]:
        found = []
        for rank, group in groupby(transfers, key=attrgetter(peer)):
            own = tuple(group)
            pieces = tuple(held.part(transfer.tensor, transfer.box) for transfer in own)
            found.append(PeerPieces(members[rank], tuple(transfer.tensor for transfer in own), pieces))
        return tuple(sorted(found, key=attrgetter("member")))

    return BoundPlan(
        streams(plan.sends, "target", before),
        streams(plan.receives, "source", after),
        tuple((after.part(copy.tensor, copy.box), before.part(copy.tensor, copy.box)) for copy in plan.copies),
    )


def _check_members(plan: ReshardPlan, ranks: Sequence[int], here: int) -> None:
    peers = {plan.rank, *(given.target for given in plan.sends), *(taken.source for taken in plan.receives)}
    if here != plan.rank or not peers.issubset(ranks):
        raise ReshardError(
            f"the plan of rank {plan.rank} exchanges with ranks {sorted(peers)}, the communicator is that of rank "
            f"{here} in {list(ranks)}"
        )


def _check_dtypes(tensor: str, sources: Arrays, targets: Arrays, rank: int) -> None:
    if tensor in sources and sources[tensor].dtype != targets[tensor].dtype:
        raise ReshardError(
            f"{tensor} on rank {rank}: the target is {targets[tensor].dtype}, the source {sources[tensor].dtype}; "
            "a reshard moves elements, it does not convert them"
        )


class _Holdings:
    """The arrays of one rank and the boxes that they hold."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._boxes: dict[str, Box] = {}

    def place(self, tensor: str, box: Box, rank: int) -> None:
        """Set the box of ``tensor``; raise ReshardError unless its array is of that shape."""
        found = self._arrays[tensor].shape if tensor in self._arrays else None
        if found != box.shape:
            raise ReshardError(f"{tensor} on rank {rank}: expected {shape_text(box.shape)}, got {shape_text(found)}")
        self._boxes[tensor] = box

    def part(self, tensor: str, box: Box) -> Piece:
        """Return the view of ``box``, given in elements of the global tensor."""
        # The ellipsis makes a view also of a 0-d array.
        index: tuple[Any, ...] = (*box.within(self._boxes[tensor]), ...)
        view: Piece = self._arrays[tensor][index]
        return view


def shape_text(shape: tuple[int, ...] | None) -> str:
    """Return what an error says of an array of this shape, or of none."""
    return "no array" if shape is None else f"an array of shape {shape}"
