"""How the matrices of a product lie in memory, as a library sees them that knows strided stacks and transposes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as places_of
from math import prod
from typing import Any

from mpiparallel.backend.products.product import Array
from mpiparallel.dataclass import dataclass

Dims = list[tuple[int, tuple[int, ...]]]
"""Extents before the matrices, each with the strides of all arrays there, in elements."""


@dataclass(frozen=True)
class Matrices:
    """Matrices whose rows are ``leading`` elements apart, or with ``is_turned`` their columns; ``stride`` is theirs."""

    is_turned: bool
    leading: int
    stride: int


@dataclass(frozen=True)
class StackedProduct:
    """Products of (rows, depth) by (depth, columns), ``count`` at a time, begun at each of ``starts``.

    ``arrays`` say how x, y, the output and what is like it lie; each start has the first element of each of them.
    """

    rows: int
    columns: int
    depth: int
    count: int
    arrays: tuple[Matrices, ...]
    starts: tuple[tuple[int, ...], ...]


def stacked(x: Array, y: Array, outputs: Sequence[Array]) -> StackedProduct | None:
    """Return how a product is made of few stacks; None where a matrix has no dim whose elements are neighbours.

    ``outputs`` are the output and the arrays of its shape beside it. Stacks that are all multiplied by one matrix are
    one matrix of many rows.

    >>> import numpy as np
    >>> rows = np.zeros((5, 2, 3)), np.zeros((3, 4)), np.zeros((5, 2, 4))
    >>> found = stacked(rows[0], rows[1], [rows[2]])
    >>> found.rows, found.count
    (10, 1)
    """
    arrays = (x, y, *outputs)
    (rows, depth), columns, batch = x.shape[-2:], y.shape[-1], outputs[0].shape[:-2]
    if not outputs[0].size or not depth or any(_is_odd(one) for one in arrays):
        return None
    dims: Dims = [
        (extent, strides)
        for extent, strides in zip(batch, zip(*(_strides(one, len(batch)) for one in arrays), strict=True), strict=True)
        if extent > 1
    ]
    together = _rows_together(dims, rows, arrays)
    if together:
        rows, dims = rows * prod(extent for extent, _ in dims), []
    lying = [_matrix(one, together[place] if together else 0) for place, one in enumerate(arrays)]
    if any(one is None for one in lying):
        return None
    dims = _merged(dims)
    widest = max(range(len(dims)), key=lambda dim: dims[dim][0], default=None)
    count, strides = (1, (0,) * len(arrays)) if widest is None else dims.pop(widest)
    starts = tuple(
        tuple(
            sum(place * steps[array] for place, (_, steps) in zip(each, dims, strict=True))
            for array in range(len(arrays))
        )
        for each in places_of(*(range(extent) for extent, _ in dims))
    )
    found = tuple(Matrices(*one, stride) for one, stride in zip(lying, strides, strict=True) if one is not None)
    return StackedProduct(rows, columns, depth, count, found, starts)


def _is_odd(array: Array) -> bool:
    return any(stride % array.itemsize or stride < 0 for stride in array.strides)


def _strides(array: Array, rank: int) -> list[int]:
    """Return the strides before an array's matrices, as many as ``rank``; 0 where it is the same for all places."""
    own = [
        stride // array.itemsize if extent > 1 else 0
        for extent, stride in zip(array.shape[:-2], array.strides[:-2], strict=True)
    ]
    return [0] * (rank - len(own)) + own


def _rows_together(dims: Dims, rows: int, arrays: Sequence[Any]) -> tuple[int, ...]:
    """Return how far the rows of each array are apart where the stack is one of rows; nothing where it is not."""
    if not dims or any(strides[1] for _, strides in dims):
        return ()
    own = (rows, tuple(one.strides[-2] // one.itemsize for one in arrays))
    whole = _merged([*dims, own] if rows > 1 else dims, but=1)
    last = whole[0][1]
    others = [place for place in range(len(arrays)) if place != 1]
    if len(whole) > 1 or any(
        arrays[place].shape[-1] > 1 and arrays[place].strides[-1] != arrays[place].itemsize for place in others
    ):
        return ()
    return tuple(last[place] if place != 1 else 0 for place in range(len(arrays)))


def _merged(dims: Dims, but: int | None = None) -> Dims:
    """Return the dims with neighbours as one where the next follows the one before in all arrays ``but`` one."""
    found: Dims = []
    for extent, strides in dims:
        follows = found and all(
            place == but or before == own * extent
            for place, (before, own) in enumerate(zip(found[-1][1], strides, strict=True))
        )
        found.append((found.pop()[0] * extent if follows else extent, strides))
    return found


def _matrix(array: Any, apart: int) -> tuple[bool, int] | None:
    """Return whether the columns of a matrix lie one after the other, not its rows, and how far these are apart.

    ``apart`` is how far rows are that are more than the matrix has.
    """
    (rows, columns), (down, right) = array.shape[-2:], (stride // array.itemsize for stride in array.strides[-2:])
    if apart:
        return (False, apart) if (right == 1 or columns == 1) and apart >= columns else None
    if right == 1 or columns == 1:
        leading = down if rows > 1 else columns
        if leading >= columns:
            return False, leading
    if down == 1 or rows == 1:
        leading = right if columns > 1 else rows
        if leading >= rows:
            return True, leading
    return None
