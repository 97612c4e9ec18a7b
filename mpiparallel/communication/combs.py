"""Where the bytes of strided views lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Comb:
    """Rows of ``row`` bytes from ``address`` on, repeated along dims of ``(count, stride)``, outer ones first."""

    address: int
    row: int
    dims: tuple[tuple[int, int], ...] = ()


def comb_of(view: NDArray[Any]) -> Comb:
    """Return the bytes of a view that is not empty, with as few dims and as long rows as can be.

    >>> import numpy as np
    >>> image = np.zeros((8, 4, 6), np.int16)
    >>> comb_of(image[2:4]).row, comb_of(image[2:4]).dims
    (96, ())
    >>> comb_of(image[:, :2, :]).row, comb_of(image[:, :2, :]).dims
    (24, ((8, 48),))
    >>> comb_of(image[:, :, 0]).row, comb_of(image[:, :, 0]).dims
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
    return Comb(view.ctypes.data, row, tuple(dims))


def joined(combs: Sequence[Comb]) -> list[Comb]:
    """Return the same bytes in the same order, with rows that touch made one."""
    result: list[Comb] = []
    for comb in combs:
        last = result[-1] if result else None
        if last and not last.dims and not comb.dims and last.address + last.row == comb.address:
            result[-1] = Comb(last.address, last.row + comb.row)
        else:
            result.append(comb)
    return result
