"""Boxes of device arrays sent from device to device: packed there, one message to each member, and unpacked there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mpiparallel.backend.protocol import Array
from mpiparallel.communication.transport.protocol import Transport
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.parallel.packed_pieces import PackedPieces
from mpiparallel.reshard.bound_plan import BoundPlan, PeerPieces
from mpiparallel.reshard.pieces import aligned


class DeviceExchange:
    """A plan bound to device arrays, run many times; all members make it together."""

    def __init__(self, runtime: Runtime, plan: BoundPlan, transport: Transport) -> None:
        self._copy = runtime.array_module.copyto
        self._own = plan.copies
        self._going, sends = _messages(runtime, plan.outgoing)
        self._coming, receives = _messages(runtime, plan.incoming)
        self._call = transport.exchange(sends, receives)

    def run(self) -> None:
        """Fill the targets from the sources; all members call it together."""
        for target, source in self._own:
            self._copy(target, source)
        for pieces in self._going:
            pieces.load()
        self._call.run()
        for pieces in self._coming:
            pieces.store()


def _messages(runtime: Runtime, streams: Sequence[PeerPieces]) -> tuple[list[PackedPieces], dict[int, Array]]:
    """Return what packs the pieces of each stream, and the bytes of its message by member.

    Pieces of one dtype lie beside each other, each kind where any may begin; both ends have them in one order.
    """
    packings: list[PackedPieces] = []
    messages: dict[int, Array] = {}
    for stream in streams:
        kinds = _of_one_dtype(stream.pieces)
        lengths = [aligned(sum(piece.nbytes for piece in pieces)) for pieces in kinds]
        message = messages[stream.member] = runtime.backend.empty(sum(lengths))
        start = 0
        for pieces, length in zip(kinds, lengths, strict=True):
            used = sum(piece.nbytes for piece in pieces)
            packings.append(PackedPieces(runtime, pieces, message[start : start + used].view(pieces[0].dtype)))
            start += length
    return packings, messages


def _of_one_dtype(pieces: Sequence[Array]) -> list[list[Array]]:
    ordered = sorted((piece for piece in pieces if piece.size), key=lambda piece: str(piece.dtype))
    return [list(group) for _, group in groupby(ordered, key=lambda piece: str(piece.dtype))]
