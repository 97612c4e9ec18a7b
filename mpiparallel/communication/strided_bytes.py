"""Where the bytes of strided views lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from mpiparallel.dataclass import dataclass


@dataclass(frozen=True)
class StridedBytes:
    """Rows of ``row`` bytes from ``address`` on, repeated along dims of ``(count, stride)``, outer ones first."""

    address: int
    row: int
    dims: tuple[tuple[int, int], ...] = ()


def strided_bytes_of(view: NDArray[Any]) -> StridedBytes:
    """Return the bytes of a view that is not empty, with as few dims and as long rows as can be.

    >>> import numpy as np
    >>> image = np.zeros((8, 4, 6), np.int16)
    >>> strided_bytes_of(image[2:4]).row, strided_bytes_of(image[2:4]).dims
    (96, ())
    >>> strided_bytes_of(image[:, :2, :]).row, strided_bytes_of(image[:, :2, :]).dims
    (24, ((8, 48),))
    >>> strided_bytes_of(image[:, :, 0]).row, strided_bytes_of(image[:, :, 0]).dims
    (2, ((32, 12),))
    """
    row = view.itemsize
    dims: list[tuple[int, int]] = []
    for count, stride in reversed([*zip(view.shape, view.strides, strict=True)]):
        if count == 1:
            continue
        if not dims and stride == row:
            row *= count
        elif dims and stride == dims[0][0] * dims[0][1]:
            dims[0] = (count * dims[0][0], dims[0][1])
        else:
            dims.insert(0, (count, stride))
    return StridedBytes(view.ctypes.data, row, tuple(dims))


def joined(pieces: Sequence[StridedBytes]) -> list[StridedBytes]:
    """Return the same bytes in the same order, with rows that touch made one."""
    result: list[StridedBytes] = []
    for piece in pieces:
        last = result[-1] if result else None
        if last and not last.dims and not piece.dims and last.address + last.row == piece.address:
            result[-1] = StridedBytes(last.address, last.row + piece.row)
        else:
            result.append(piece)
    return result
