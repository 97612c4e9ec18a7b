"""Where pieces lie in memory, as numbers that a peer can be told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpiparallel.reshard.pieces import Piece


def places_of(pieces: Sequence[Piece]) -> NDArray[np.int64]:
    """Return the address of each piece and its strides in bytes, one piece a row; short rows end in zeros."""
    rows = np.zeros(places_shape(pieces), np.int64)
    for row, piece in zip(rows, pieces, strict=True):
        row[0] = address(piece)
        row[1 : 1 + piece.ndim] = piece.strides
    return rows


def places_shape(pieces: Sequence[Piece]) -> tuple[int, int]:
    """Return the shape of what ``places_of`` returns, at both ends of a stream."""
    return len(pieces), 1 + max(piece.ndim for piece in pieces)


def address(piece: Piece) -> int:
    """Return where the first element of a piece lies."""
    start: int = piece.__array_interface__["data"][0]
    return start
