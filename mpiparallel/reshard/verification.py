"""Whether what arrived is what was sent: a checksum of every window at both ends."""

from __future__ import annotations

from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from mpiparallel.communication.agreement import failing_together, raise_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.bound_plan import BoundPlan, Stream
from mpiparallel.reshard.pieces import Piece, byte_view, runs

# Windows of pieces of at least this many bytes together: one checksum for many small tensors, one for each large one.
_WINDOW_BYTES: Final = 1 << 20
# What is strided is put in a row in portions that stay in the processor's cache.
_PORTION_BYTES: Final = 1 << 18


def verify(bound: BoundPlan, communicator: Communicator, scratch_bytes: int = _PORTION_BYTES) -> None:
    """Compare the 64-bit XXH3 of each window in the sources and where it has arrived in the targets.

    All ranks call it together. Raises ReshardError on every rank if a window differs on any.
    """
    portion = min(_PORTION_BYTES, scratch_bytes)
    with failing_together(communicator, ReshardError):
        sent = {stream.member: _checksums(stream, portion) for stream in bound.outgoing}
        found = {stream.member: _checksums(stream, portion) for stream in bound.incoming}
    expected = {member: np.empty_like(checksums) for member, checksums in found.items()}
    communicator.exchange(
        {member: byte_view(checksums) for member, checksums in sent.items()},
        {member: byte_view(checksums) for member, checksums in expected.items()},
    )
    damaged = [
        f"{_names(stream, window)} from rank {communicator.ranks[stream.member]}"
        for stream in bound.incoming
        for window, same in zip(_windows(stream), found[stream.member] == expected[stream.member], strict=True)
        if not same
    ]
    raise_together(f"bytes arrived damaged: {'; '.join(damaged)}" if damaged else None, communicator, ReshardError)


def _windows(stream: Stream) -> list[slice]:
    """Return which pieces make up each window, the same at both ends."""
    windows, first, length = [], 0, 0
    for index, piece in enumerate(stream.pieces, 1):
        length += piece.nbytes
        if length >= _WINDOW_BYTES or index == len(stream.pieces):
            windows.append(slice(first, index))
            first, length = index, 0
    return windows


def _checksums(stream: Stream, portion: int) -> NDArray[np.uint64]:
    return np.array([_checksum(stream.pieces[window], portion) for window in _windows(stream)], np.uint64)


def _checksum(pieces: tuple[Piece, ...], portion: int) -> int:
    checksum = xxhash.xxh3_64()
    for piece in pieces:
        if piece.flags.c_contiguous:
            checksum.update(byte_view(piece).data)
            continue
        step = max(1, portion // piece.itemsize)
        for start in range(0, piece.size, step):
            for run in runs(piece, start, min(start + step, piece.size)):
                checksum.update(byte_view(np.ascontiguousarray(run)).data)
    return checksum.intdigest()


def _names(stream: Stream, window: slice) -> str:
    first, *others = dict.fromkeys(stream.tensors[window])
    return f"{first} and {len(others)} more tensors" if others else first
