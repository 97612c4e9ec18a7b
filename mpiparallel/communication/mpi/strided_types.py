"""MPI datatypes of strided views: they name the bytes where they lie, at absolute addresses.

No length or count in them exceeds what 32 bits hold, for libraries that count in 32 bits; sums and addresses do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from numpy.typing import NDArray

from mpiparallel.communication.mpi.library import MPI
from mpiparallel.communication.strided_bytes import StridedBytes, joined, strided_bytes_of

_MOST = 1 << 30


def datatype_of(views: Sequence[NDArray[Any]]) -> MPI.Datatype:
    """Return the committed datatype of the bytes of all views in their order, to be used once on ``MPI.BOTTOM``."""
    pieces = joined([strided_bytes_of(view) for view in views if view.size and view.itemsize])
    parts: list[tuple[int, MPI.Datatype]] = []
    for are_rows, some in groupby(pieces, key=lambda piece: not piece.dims):
        neighbours = list(some)
        parts += [(0, _rows(neighbours))] if are_rows else [(piece.address, _repeated(piece)) for piece in neighbours]
    return _struct(parts).Commit()


def _rows(pieces: Sequence[StridedBytes]) -> MPI.Datatype:
    """Return the datatype of rows at their addresses."""
    starts, lengths = [], []
    for piece in pieces:
        for start, length in _cut(piece.row):
            starts.append(piece.address + start)
            lengths.append(length)
    return MPI.BYTE.Create_hindexed(lengths, starts)


def _repeated(piece: StridedBytes) -> MPI.Datatype:
    """Return the datatype of a piece that begins at address 0."""
    made = _struct([(start, MPI.BYTE.Create_contiguous(length)) for start, length in _cut(piece.row)])
    for count, stride in reversed(piece.dims):
        repeated = [(start * stride, made.Create_hvector(length, 1, stride)) for start, length in _cut(count)]
        made.Free()
        made = _struct(repeated)
    return made


def _struct(parts: Sequence[tuple[int, MPI.Datatype]]) -> MPI.Datatype:
    """Return the datatype of all parts at their addresses; the parts are given up."""
    if len(parts) == 1 and parts[0][0] == 0:
        return parts[0][1]
    addresses, datatypes = [part[0] for part in parts], [part[1] for part in parts]
    made = MPI.Datatype.Create_struct([1] * len(parts), addresses, datatypes)
    for datatype in datatypes:
        datatype.Free()
    return made


def _cut(length: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of parts that 32 bits can count."""
    return ((start, min(_MOST, length - start)) for start in range(0, length, _MOST))
