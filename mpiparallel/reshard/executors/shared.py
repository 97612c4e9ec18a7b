"""Shared memory within a host: every rank writes what it sends straight into the targets of its peers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.reshard.bound_plan import BoundPlan, Stream
from mpiparallel.reshard.executors.packed import PackedExecutor
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.memory import Targets
from mpiparallel.reshard.pieces import Piece, byte_view


class SharedExecutor:
    """One pass from a strided source to a strided target, where the target lies in memory that both ranks see.

    What crosses hosts is packed and sent. ``targets`` are those of this rank.
    """

    NAME: Final = "shared"

    def __init__(self, bound: BoundPlan, communicator: Communicator, shape: TrafficShape, targets: Targets) -> None:
        own = communicator.hosts[communicator.rank]
        near = frozenset(member for member, host in enumerate(communicator.hosts) if host == own)
        self._bound = bound
        self._near = bound.only(near)
        self._far = PackedExecutor(bound.only(frozenset(range(communicator.size)) - near), communicator, shape)
        self._communicator = communicator
        self._targets = targets
        self._pairs: list[tuple[Piece, Piece]] = []

    def connect(self) -> None:
        """Learn where the pieces that this rank sends belong; all ranks call it together."""
        told = {stream.member: byte_view(self._places(stream)) for stream in self._near.incoming}
        places = [np.empty((len(s.pieces), 2 + _dims(s)), np.int64) for s in self._near.outgoing]
        heard = {stream.member: byte_view(into) for stream, into in zip(self._near.outgoing, places, strict=True)}
        self._communicator.exchange(told, heard)
        self._far.connect()
        here, size = self._communicator.rank, self._communicator.size
        for stream, into in sorted(
            zip(self._near.outgoing, places, strict=True), key=lambda pair: (pair[0].member - here) % size
        ):
            for piece, place in zip(stream.pieces, into.tolist(), strict=True):
                self._pairs.append((self._peer_piece(stream.member, piece, place), piece))

    def _places(self, stream: Stream) -> NDArray[np.int64]:
        """Return the block, the offset in it and the strides of each piece of a stream, one in a row."""
        rows = np.zeros((len(stream.pieces), 2 + _dims(stream)), np.int64)
        starts = [_address(block.own) for block in self._targets.blocks]
        for row, tensor, piece in zip(rows, stream.tensors, stream.pieces, strict=True):
            block = self._targets.block_of[tensor]
            row[0], row[1] = block, _address(piece) - starts[block]
            row[2 : 2 + piece.ndim] = piece.strides
        return rows

    def _peer_piece(self, member: int, piece: Piece, place: list[int]) -> Piece:
        block, offset, *strides = place
        memory = self._targets.blocks[block].of(member)
        return np.ndarray(piece.shape, piece.dtype, memory, offset, tuple(strides[: piece.ndim]))

    def run(self) -> None:
        """Fill the targets of the peers from the sources of this rank; all ranks call it together."""
        # No rank writes before every peer has done with what its targets held.
        self._communicator.barrier()
        self._bound.copy_own()
        for target, source in self._pairs:
            np.copyto(target, source, casting="no")
        self._far.run()
        self._communicator.barrier()

    def free(self) -> None:
        """Forget the peers' memory; that of this rank lives as long as its arrays."""
        self._pairs.clear()
        for block in self._targets.blocks:
            block.release()
        self._far.free()


def _dims(stream: Stream) -> int:
    return max(piece.ndim for piece in stream.pieces)


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
