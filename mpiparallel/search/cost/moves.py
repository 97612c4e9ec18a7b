"""The prices of all moves from some layouts to others at once; a test holds them to those of the planner's steps.

Layouts that cut evenly are read as sequences of axes for each dim, on a device matrix of prime axes. What a move takes
follows from how the sequences of each dim differ, and there are few of these. All others are priced pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import isqrt, prod
from operator import or_
from typing import Any

import numpy as np

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost.prices import Prices

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]

_FEWEST_PAIRS = 64


def prices_of_moves(prices: Prices, sources: Sequence[Layout], targets: Sequence[Layout], itemsize: int) -> Array:
    """Return the seconds from each source (rows) to each target (columns) of a tensor with items of so many bytes."""
    table = np.zeros((len(sources), len(targets)))
    alike, rows, columns = [], [], []
    if len(sources) * len(targets) >= _FEWEST_PAIRS:
        matrix = prime_axes(sources[0].devices)
        alike = [matrix is not None and _is_even(layout, matrix) for layout in (*sources, *targets)]
        rows = [place for place, even in enumerate(alike[: len(sources)]) if even]
        columns = [place for place, even in enumerate(alike[len(sources) :]) if even]
        if matrix is not None and rows and columns:
            moves = _EvenMoves([sources[row] for row in rows], [targets[column] for column in columns], matrix)
            table[np.ix_(rows, columns)] = moves.seconds(prices, itemsize)
    even_rows, even_columns = set(rows), set(columns)
    for row, source in enumerate(sources):
        for column, target in enumerate(targets):
            if row not in even_rows or column not in even_columns:
                table[row, column] = prices.moving(source, target, itemsize)
    return table


def prime_axes(devices: DeviceMatrix) -> DeviceMatrix | None:
    """Return the ranks on axes of one prime; None where they are no power of one or do not count up.

    >>> prime_axes(DeviceMatrix((2, 4))).shape
    (2, 2, 2)
    """
    size = devices.size
    prime = next((factor for factor in range(2, isqrt(size) + 1) if size % factor == 0), size)
    shape: tuple[int, ...] = ()
    while prime > 1 and prod(shape) < size:
        shape = (*shape, prime)
    return devices.reshaped(shape) if prod(shape) == size and not devices.ranks else None


def _is_even(layout: Layout, matrix: DeviceMatrix) -> bool:
    if layout.bounds or layout.devices.ranks or layout.devices.first_rank != matrix.first_rank:
        return False
    return all(extent % cut == 0 for extent, cut in zip(layout.global_shape, layout.cuts, strict=True))


@dataclass(frozen=True)
class _DimChange:
    """What becomes of a dim whose cut by ``before`` becomes one by ``after``, and where three ranks have it then."""

    before: Axes
    after: Axes

    @property
    def kept(self) -> int:
        """How many leading axes cut it alike."""
        pairs = enumerate(zip(self.before, self.after, strict=False))
        apart = [place for place, (one, other) in pairs if one != other]
        return apart[0] if apart else min(len(self.before), len(self.after))

    @property
    def joined(self) -> int:
        """The axes, as a mask, along which its blocks are joined by a gather; 0 where it takes more than that."""
        axes = self.before[len(self.after) :]
        return _mask(axes) if self.kept == len(self.after) and axes == tuple(sorted(axes)) else 0

    @property
    def scattered(self) -> int:
        """The axes, as a mask, along which each of its blocks is cut in order; 0 where it takes more than that."""
        axes = self.after[len(self.before) :]
        return _mask(axes) if self.kept == len(self.before) and axes == tuple(sorted(axes)) else 0

    @property
    def moved(self) -> int:
        """The axes, as a mask, along which ranks exchange."""
        return _mask(self.before[self.kept :]) | _mask(self.after[self.kept :])


class _EvenMoves:
    """Moves from layouts that cut evenly to others, as tables with a row for each source, a column for each target."""

    def __init__(self, sources: Sequence[Layout], targets: Sequence[Layout], matrix: DeviceMatrix) -> None:
        self._matrix, self._prime = matrix, matrix.shape[0]
        self._shape = sources[0].global_shape
        known: dict[Layout, int] = {}
        held, wanted = (
            np.array([known.setdefault(one.canonical, len(known)) for one in side]) for side in (sources, targets)
        )
        self._stays = held[:, None] == wanted[None]
        fine = [[layout.reshaped_devices(matrix.shape) for layout in side] for side in (sources, targets)]
        self._partial = np.array([_mask(layout.partial) for layout in fine[0]])[:, None]
        self._is_sum = np.array([layout.reduction == "sum" for layout in fine[0]])[:, None]
        self._held, self._wanted = (
            np.array([prod(layout.global_shape) // prod(layout.cuts) for layout in side]) for side in fine
        )
        self._dims = [_pairs_of_dim(fine[0], fine[1], dim) for dim in range(len(self._shape))]

    def _table(self, what: Callable[[_DimChange], Any], dim: int) -> Array:
        changes, numbers = self._dims[dim]
        return np.array([what(change) for change in changes])[numbers]

    def _all(self, what: Callable[[_DimChange], int]) -> Array:
        tables = (self._table(what, dim) for dim in range(len(self._shape)))
        return reduce(or_, tables, np.zeros((1, 1), np.int64))

    def seconds(self, prices: Prices, itemsize: int) -> Array:
        """Return the seconds of each move: its terms are summed, all or to the target's parts, then parts are moved."""
        shape = self._held.size, self._wanted.size
        held = np.broadcast_to(self._held[:, None], shape) * itemsize
        wanted = np.broadcast_to(self._wanted[None], shape) * itemsize
        terms = np.broadcast_to(self._partial, shape)
        ones = np.zeros(shape, np.int64)
        changed = sum((self._table(lambda one: one.before != one.after, dim) for dim in range(len(self._shape))), ones)
        one_dim = changed == 1
        scattered = np.where(one_dim & self._is_sum, self._all(lambda one: one.scattered), 0)
        scattered = np.where(scattered & ~terms == 0, scattered, 0)
        left = np.where(scattered > 0, 0, changed)
        joined = np.where(left == 1, self._all(lambda one: one.joined), 0)
        lost = self._all(lambda one: one.kept < len(one.before)) > 0
        moved = np.where((left > 0) & (joined == 0) & lost, self._all(lambda one: one.moved), 0)
        rest = terms & ~scattered
        found = (
            self._priced(prices, "reduce_scatter", scattered, held)
            + self._priced(prices, "reduce", rest, np.where(scattered > 0, wanted, held))
            + self._priced(prices, "gather", joined, wanted)
            + self._priced(prices, "exchange", moved, self._received() * itemsize)
        )
        return np.where(self._stays, 0.0, found)

    def _received(self) -> Array:
        """Return how many elements a rank gets from others, of the first, the middle and the last rank the most."""
        members = self._matrix.members
        most: Array = np.zeros((1, 1), np.int64)
        for rank in (members[0], members[len(members) // 2], members[-1]):
            places = self._matrix.coordinates(rank)
            kept: Array = np.ones((self._held.size, self._wanted.size), np.int64)
            for dim, extent in enumerate(self._shape):
                kept = kept * self._table(partial(_overlap, extent=extent, places=places, prime=self._prime), dim)
            most = np.maximum(most, self._wanted[None] - kept)
        return most

    def _priced(self, prices: Prices, kind: str, masks: Array, sizes: Array) -> Array:
        """Return the seconds of a collective for each group, as a mask of axes, and bytes; of none for no group."""
        seconds = np.zeros(masks.shape)
        takes_part = masks > 0
        if takes_part.any():
            base = int(sizes.max()) + 1
            distinct, places = np.unique(masks[takes_part] * base + sizes[takes_part], return_inverse=True)
            pairs = (divmod(int(code), base) for code in distinct)
            told = [prices.collective(kind, self._matrix, _axes(mask), size) for mask, size in pairs]
            seconds[takes_part] = np.array(told)[places]
        return seconds


def _pairs_of_dim(sources: Sequence[Layout], targets: Sequence[Layout], dim: int) -> tuple[list[_DimChange], Array]:
    """Return how a dim may change, and which of these changes it is from each source to each target."""
    known: list[dict[Axes, int]] = []
    numbers = []
    for side in (sources, targets):
        seen: dict[Axes, int] = {}
        numbers.append(np.array([seen.setdefault(layout.cutting_axes[dim], len(seen)) for layout in side]))
        known.append(seen)
    changes = [_DimChange(before, after) for before in known[0] for after in known[1]]
    return changes, numbers[0][:, None] * len(known[1]) + numbers[1][None]


def _overlap(change: _DimChange, extent: int, places: Sequence[int], prime: int) -> int:
    """Return how many elements along a dim the rank at ``places`` holds and keeps."""
    bounds = []
    for axes in (change.before, change.after):
        length, part = extent // int(prime ** len(axes)), 0
        for axis in axes:
            part = part * prime + places[axis]
        bounds.append((part * length, (part + 1) * length))
    (start, stop), (first, last) = bounds
    return max(0, min(stop, last) - max(start, first))


def _mask(axes: Axes) -> int:
    mask = 0
    for axis in axes:
        mask |= 1 << axis
    return mask


def _axes(mask: int) -> Axes:
    return tuple(axis for axis in range(mask.bit_length()) if mask >> axis & 1)
