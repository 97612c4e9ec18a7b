"""The rounds of a move through windows: what of each stream travels together, and where it lies meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard.bound_plan import BoundPlan, PeerPieces
from mpiparallel.reshard.pieces import ALIGNMENT, PackedMessage, Piece, aligned, byte_view, messages, offsets

Bytes = NDArray[np.uint8]
Copies = list[tuple[Piece, Piece]]


class Round(NamedTuple):
    """One window of each stream: its bytes by member, and the pieces with their places in them."""

    packing: Copies
    sends: Mapping[int, Bytes]
    receives: Mapping[int, Bytes]
    unpacking: Copies


class Rounds:
    """The same ``share`` of each stream of a plan in each round, in two buffers of bytes that ``allocate`` makes.

    Contiguous pieces travel as they are, unless the buffers are to have ``all_of_it``. Where pieces are packed each
    begins at a multiple of ``alignment``, by default that of its dtype. ``tensors`` are those that each window received
    has elements of, by member.
    """

    def __init__(
        self,
        bound: BoundPlan,
        share: float,
        allocate: Callable[[int], Any],
        *,
        all_of_it: bool = False,
        alignment: int | None = None,
    ) -> None:
        outgoing, incoming = ([list(_messages(s, share)) for s in side] for side in (bound.outgoing, bound.incoming))
        going, coming = (_Scratch(side, allocate, all_of_it, alignment) for side in (outgoing, incoming))
        self.sent, self.received = going.buffer, coming.buffer
        to, of = ([stream.member for stream in side] for side in (bound.outgoing, bound.incoming))
        self.steps: list[Round] = []
        for given, taken in zip_longest(zip_longest(*outgoing), zip_longest(*incoming), fillvalue=()):
            packing, sends = going.place(to, given)
            unpacking, receives = coming.place(of, taken)
            self.steps.append(Round(packing, sends, receives, [(piece, window) for window, piece in unpacking]))
        self.tensors = {
            stream.member: [stream.tensors[message.pieces] for message in cut]
            for stream, cut in zip(bound.incoming, incoming, strict=True)
        }

    def agree(self, communicator: Communicator) -> None:
        """Have as many rounds as every rank; all ranks call it together."""
        rounds = np.array(len(self.steps))
        communicator.all_reduce(rounds, "max")
        self.steps += [Round([], {}, {}, [])] * (int(rounds) - len(self.steps))

    def forget(self) -> None:
        """Hold no views of anything."""
        self.steps = []


def _messages(stream: PeerPieces, share: float) -> Iterator[PackedMessage]:
    length = sum(aligned(piece.nbytes) for piece in stream.pieces)
    largest = length if share >= 1 else max(ALIGNMENT, int(share * length) // ALIGNMENT * ALIGNMENT)
    return messages(stream.pieces, largest)


class _Scratch:
    """One buffer for the windows of one direction, member after member, used again in every round.

    Contiguous pieces do without, unless the buffer is to have all of a window.
    """

    def __init__(
        self,
        streams: Sequence[Sequence[PackedMessage]],
        allocate: Callable[[int], Any],
        all_of_it: bool,
        alignment: int | None,
    ) -> None:
        self._all_of_it, self._alignment = all_of_it, alignment
        needed = 0
        for step in zip_longest(*streams):
            packed = [message for message in step if message is not None and self._packs(message)]
            needed = max(needed, sum(aligned(offsets(message.views, alignment)[-1]) for message in packed))
        self.buffer: Bytes = allocate(needed)

    def place(self, members: Sequence[int], window: Sequence[PackedMessage | None]) -> tuple[Copies, dict[int, Bytes]]:
        """Return the places in the buffer with the pieces that belong there, and the bytes of each member's part."""
        packed: Copies = []
        travelling: dict[int, Bytes] = {}
        start = 0
        for member, message in zip(members, window, strict=False):
            if message is None:
                continue
            if not self._packs(message):
                travelling[member] = byte_view(message.views[0])
                continue
            places = offsets(message.views, self._alignment)
            block = self.buffer[start : start + places[-1]]
            packed += zip(_views(block, message.views, places), message.views, strict=True)
            travelling[member] = block
            start = aligned(start + places[-1])
        return packed, travelling

    def _packs(self, message: PackedMessage) -> bool:
        return self._all_of_it or len(message.views) > 1 or not message.views[0].flags.c_contiguous


def _views(block: Bytes, views: Sequence[Piece], places: Sequence[int]) -> list[Piece]:
    return [
        block[place : place + view.nbytes].view(view.dtype).reshape(view.shape)
        for place, view in zip(places, views, strict=False)
    ]
