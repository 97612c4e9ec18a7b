"""Cutting strided arrays into runs of elements and messages of bounded size, alike at both ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Piece = NDArray[Any]

# No dtype needs more, so what starts here can be viewed in any.
ALIGNMENT: Final = 16
# A piece this large travels alone: where it is contiguous it need not be packed, and a message more costs nothing.
_LARGE: Final = 1 << 20


def runs(piece: Piece, start: int, stop: int) -> Iterator[Piece]:
    """Yield views that together hold the elements ``[start, stop)`` of ``piece``, counted and given in C order.

    >>> [run.tolist() for run in runs(np.arange(6).reshape(2, 3), 1, 6)]
    [[1, 2], [[3, 4, 5]]]
    """
    if start >= stop:
        return
    if piece.ndim == 0:
        yield piece
        return
    row = prod(piece.shape[1:])
    (first, head), (last, tail) = divmod(start, row), divmod(stop, row)
    if first == last:
        yield from runs(piece[first], head, tail) if piece.ndim > 1 else (piece[start:stop],)
        return
    if head:
        yield from runs(piece[first], head, row)
        first += 1
    if first < last:
        yield piece[first:last]
    if tail:
        yield from runs(piece[last], 0, tail)


class PackedMessage(NamedTuple):
    """What travels together: views of elements, and of which pieces of the stream they are."""

    pieces: slice
    views: list[Piece]


def messages(pieces: Sequence[Piece], largest: int) -> Iterator[PackedMessage]:
    """Yield the pieces of a stream as messages of at most ``largest`` bytes, or of one element where that is larger.

    Small pieces travel together, large ones alone or in runs. Both ends of a stream cut it alike, because all depends
    on shapes and item sizes only.
    """
    batch: list[Piece] = []
    length = 0
    for index, piece in enumerate(pieces):
        alone = piece.nbytes > min(largest, _LARGE)
        if batch and (alone or length + piece.nbytes > largest):
            yield PackedMessage(slice(index - len(batch), index), batch)
            batch, length = [], 0
        if not alone:
            batch.append(piece)
            length = aligned(length + piece.nbytes)
            continue
        step = run_length(piece, max(1, largest // piece.itemsize))
        for start in range(0, piece.size, step):
            yield PackedMessage(slice(index, index + 1), list(runs(piece, start, min(start + step, piece.size))))
    if batch:
        yield PackedMessage(slice(len(pieces) - len(batch), len(pieces)), batch)


def run_length(piece: Piece, most: int) -> int:
    """Return how many elements runs should have: at most ``most``, in whole rows where these are shorter."""
    row = 1
    for extent in reversed(piece.shape):
        if row * extent > most:
            break
        row *= extent
    return most - most % row


def aligned(length: int, alignment: int = ALIGNMENT) -> int:
    """Return the first multiple of ``alignment`` that is not below ``length``."""
    return -(-length // alignment) * alignment


def offsets(views: Sequence[Piece], alignment: int | None = None) -> list[int]:
    """Return where each view starts when all are packed one after the other, and last the end of all.

    Each starts at a multiple of ``alignment``, by default that of its dtype.
    """
    found, end = [], 0
    for piece in views:
        start = aligned(end, alignment or piece.dtype.alignment)
        found.append(start)
        end = start + piece.nbytes
    return [*found, end]


def byte_view(piece: Piece) -> NDArray[np.uint8]:
    """Return the bytes of a C-contiguous piece, without a copy."""
    return piece.reshape(-1).view(np.uint8)
