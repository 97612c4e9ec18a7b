"""Shared memory within a host: every rank writes what it sends straight into the targets of its peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard.bound_plan import BoundPlan, PeerPieces
from mpiparallel.reshard.checksums import Checksummer, ChecksumStep, carry_out, windows
from mpiparallel.reshard.executors.packed import PackedExecutor
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.memory import Targets
from mpiparallel.reshard.pieces import Piece, byte_view
from mpiparallel.reshard.verification import Checked


class SharedExecutor:
    """One pass from a strided source to a strided target, where the target lies in memory that both ranks see.

    What crosses hosts is packed and sent. ``targets`` are those of this rank.
    """

    NAME: Final = "shared"

    def __init__(
        self,
        bound: BoundPlan,
        communicator: Communicator,
        shape: TrafficShape,
        targets: Targets,
        checksummer: Checksummer | None,
    ) -> None:
        own = communicator.hosts[communicator.rank]
        near = frozenset(member for member, host in enumerate(communicator.hosts) if host == own)
        self._bound = bound
        self._near = bound.only(near)
        far = frozenset(range(communicator.size)) - near
        self._far = PackedExecutor(bound.only(far), communicator, shape, checksummer)
        self._checksummer = checksummer
        self._communicator = communicator
        self._targets = targets
        self._writing: dict[int, list[list[ChecksumStep]]] = {}
        self._reading: dict[int, list[list[ChecksumStep]]] = {}
        self._tensors: dict[int, list[tuple[str, ...]]] = {}

    def connect(self) -> None:
        """Learn where the pieces that this rank sends belong; all ranks call it together."""
        told = {stream.member: byte_view(self._places(stream)) for stream in self._near.incoming}
        shapes = [_places_shape(stream.pieces) for stream in self._near.outgoing]
        places = [np.empty((count, 1 + numbers), np.int64) for count, numbers in shapes]
        heard = {stream.member: byte_view(into) for stream, into in zip(self._near.outgoing, places, strict=True)}
        self._communicator.exchange(told, heard)
        self._far.connect()
        here, size = self._communicator.rank, self._communicator.size
        for stream, into in sorted(
            zip(self._near.outgoing, places, strict=True), key=lambda pair: (pair[0].member - here) % size
        ):
            places_there = zip(stream.pieces, into.tolist(), strict=True)
            there = [self._peer_piece(stream.member, piece, place) for piece, place in places_there]
            self._writing[stream.member] = self._write_steps(stream, there)
        if self._checksummer:
            self._prepare_reading(self._checksummer)

    def _prepare_reading(self, checksummer: Checksummer) -> None:
        for stream in self._near.incoming:
            parts = windows(stream)
            self._reading[stream.member] = [list(checksummer.reading(stream.pieces[part])) for part in parts]
            self._tensors[stream.member] = [stream.tensors[part] for part in parts]

    def _write_steps(self, stream: PeerPieces, there: list[Piece]) -> list[list[ChecksumStep]]:
        if self._checksummer is None:
            return [[ChecksumStep(pair, None) for pair in zip(there, stream.pieces, strict=True)]]
        parts = windows(stream)
        return [list(self._checksummer.moving(zip(there[part], stream.pieces[part], strict=True))) for part in parts]

    def _places(self, stream: PeerPieces) -> NDArray[np.int64]:
        """Return the block, the offset in it and the strides of each piece of a stream, one in a row."""
        blocks = np.array([[self._targets.block_of[tensor]] for tensor in stream.tensors], np.int64)
        places = _places_of(stream.pieces)
        places[:, :1] -= np.array([_address(block.own) for block in self._targets.blocks], np.int64)[blocks]
        return np.hstack([blocks, places])

    def _peer_piece(self, member: int, piece: Piece, place: list[int]) -> Piece:
        block, offset, *strides = place
        memory = self._targets.blocks[block].of(member)
        return np.ndarray(piece.shape, piece.dtype, memory, offset, tuple(strides[: piece.ndim]))

    def run(self) -> Checked:
        """Fill the targets of the peers from the sources of this rank; all ranks call it together."""
        # No rank writes before every peer has done with what its targets held.
        self._communicator.barrier()
        self._bound.copy_own()
        sent = {member: [carry_out(steps) for steps in parts] for member, parts in self._writing.items()}
        far = self._far.run()
        self._communicator.barrier()
        if not self._checksummer:
            return far
        arrived = {member: [carry_out(steps) for steps in parts] for member, parts in self._reading.items()}
        checked = Checked(sent, arrived, dict(self._tensors))
        checked.add(far)
        return checked

    def free(self) -> None:
        """Forget the peers' memory; that of this rank lives as long as its arrays."""
        self._writing.clear()
        self._reading.clear()
        for block in self._targets.blocks:
            block.release()
        self._far.free()


def _places_of(pieces: Sequence[Piece]) -> NDArray[np.int64]:
    """Return the address of each piece and its strides in bytes, one piece a row; short rows end in zeros."""
    rows = np.zeros(_places_shape(pieces), np.int64)
    for row, piece in zip(rows, pieces, strict=True):
        row[0] = _address(piece)
        row[1 : 1 + piece.ndim] = piece.strides
    return rows


def _places_shape(pieces: Sequence[Piece]) -> tuple[int, int]:
    """Return the shape of what ``_places_of`` returns, at both ends of a stream."""
    return len(pieces), 1 + max(piece.ndim for piece in pieces)


def _address(piece: Piece) -> int:
    """Return where the first element of a piece lies."""
    start: int = piece.__array_interface__["data"][0]
    return start
