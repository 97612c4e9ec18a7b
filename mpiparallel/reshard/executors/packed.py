"""Windows of bounded size: pack, exchange, unpack; what is contiguous is neither packed nor unpacked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard import memory
from mpiparallel.reshard.bound_plan import BoundPlan, Stream
from mpiparallel.reshard.checksums import Checksummer
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.pieces import ALIGNMENT, PackedMessage, Piece, aligned, byte_view, messages, offsets
from mpiparallel.reshard.verification import Checked

Bytes = NDArray[np.uint8]
Copies = list[tuple[Piece, Piece]]


class _Round(NamedTuple):
    """One window of each stream: its bytes by member, and the pieces with their places in them."""

    packing: Copies
    sends: Mapping[int, Bytes]
    receives: Mapping[int, Bytes]
    unpacking: Copies


class PackedExecutor:
    """Sends every stream in windows, the same share of each stream in each round.

    So no rank packs more than half of the scratch memory at a time, and receives no more into the other half, however
    uneven the streams are. One share of everything at once where that fits. Where all ranks talk to most others in
    small messages one Alltoallv carries them, else messages go from point to point, only between ranks that have some.
    """

    NAME: Final = "packed"

    def __init__(
        self, bound: BoundPlan, communicator: Communicator, shape: TrafficShape, checksummer: Checksummer | None = None
    ) -> None:
        self._bound = bound
        self._communicator = communicator
        self._checksummer = checksummer
        self._together = shape.suits_all_to_all
        outgoing, incoming = (
            [list(_messages(s, shape.share)) for s in side] for side in (bound.outgoing, bound.incoming)
        )
        self._sent = _Scratch(outgoing, self._together)
        self._received = _Scratch(incoming, self._together)
        self._rounds = list(self._make_rounds(outgoing, incoming))
        self._tensors = {
            stream.member: [stream.tensors[message.pieces] for message in cut]
            for stream, cut in zip(bound.incoming, incoming, strict=True)
        }

    def _make_rounds(
        self, outgoing: Sequence[Sequence[PackedMessage]], incoming: Sequence[Sequence[PackedMessage]]
    ) -> Iterator[_Round]:
        to = [stream.member for stream in self._bound.outgoing]
        of = [stream.member for stream in self._bound.incoming]
        for given, taken in zip_longest(zip_longest(*outgoing), zip_longest(*incoming), fillvalue=()):
            packing, sends = self._sent.place(to, given)
            unpacking, receives = self._received.place(of, taken)
            yield _Round(packing, sends, receives, [(piece, window) for window, piece in unpacking])

    def connect(self) -> None:
        """Agree on the number of rounds; all ranks call it together."""
        rounds = np.array(len(self._rounds))
        self._communicator.all_reduce(rounds, "max")
        self._rounds += [_Round([], {}, {}, [])] * (int(rounds) - len(self._rounds))

    def run(self) -> Checked:
        """Fill the targets from the sources; all ranks call it together."""
        checked = Checked(tensors=self._tensors)
        self._bound.copy_own()
        for step in self._rounds:
            for window, piece in step.packing:
                np.copyto(window, piece, casting="no")
            self._note(checked.sent, step.sends)
            self._exchange(step)
            self._note(checked.arrived, step.receives)
            for piece, window in step.unpacking:
                np.copyto(piece, window, casting="no")
        return checked

    def _note(self, checksums: dict[int, list[int]], window: Mapping[int, Bytes]) -> None:
        """Add the checksum of the window of each stream, while the processor has it in its cache."""
        if self._checksummer:
            for member, content in window.items():
                checksums.setdefault(member, []).append(self._checksummer.of([content]))

    def _exchange(self, step: _Round) -> None:
        if not self._together:
            self._communicator.exchange(step.sends, step.receives)
            return
        counts = [
            [aligned(len(side[member])) if member in side else 0 for member in range(self._communicator.size)]
            for side in (step.sends, step.receives)
        ]
        self._communicator.all_to_all_v(self._sent.buffer, counts[0], self._received.buffer, counts[1])

    def free(self) -> None:
        """Give back the windows."""
        self._rounds = []


def _messages(stream: Stream, share: float) -> Iterator[PackedMessage]:
    length = sum(aligned(piece.nbytes) for piece in stream.pieces)
    largest = length if share >= 1 else max(ALIGNMENT, int(share * length) // ALIGNMENT * ALIGNMENT)
    return messages(stream.pieces, largest)


class _Scratch:
    """One buffer for the windows of one direction, member after member, used again in every round.

    Contiguous pieces do without, unless the buffer is to have all of a window.
    """

    def __init__(self, streams: Sequence[Sequence[PackedMessage]], all_of_it: bool) -> None:
        self._all_of_it = all_of_it
        needed = 0
        for step in zip_longest(*streams):
            packed = [message for message in step if message is not None and self._packs(message)]
            needed = max(needed, sum(aligned(offsets(message.views)[-1]) for message in packed))
        self.buffer = memory.allocate((needed,), np.dtype(np.uint8))

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
            places = offsets(message.views)
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
