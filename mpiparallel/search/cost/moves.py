"""The prices of all moves from some layouts to others at once; a test holds them to those of the planner's steps.

Layouts that cut evenly are read as sequences of axes for each dim, on a device matrix of prime axes. What a move takes
follows from how the sequences of each dim differ, and there are few of these. All others are priced pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import isqrt, prod
from operator import or_
from typing import Any, Final, NamedTuple

import numpy as np

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost.prices import Prices

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]

_FEWEST_PAIRS: Final = 64
_LAYOUTS_KEPT: Final = 1 << 15


def prices_of_moves(prices: Prices, sources: Sequence[Layout], targets: Sequence[Layout], itemsize: int) -> Array:
    """Return the seconds from each source (rows) to each target (columns) of a tensor with items of so many bytes."""
    table = np.zeros((len(sources), len(targets)))
    rows: list[int] = []
    columns: list[int] = []
    if len(sources) * len(targets) >= _FEWEST_PAIRS:
        matrix = prime_axes(sources[0].devices)
        if matrix is not None:
            even = [[_even(layout, matrix) for layout in side] for side in (sources, targets)]
            rows, columns = ([place for place, one in enumerate(side) if one is not None] for side in even)
            if rows and columns:
                held, wanted = ([one for one in side if one is not None] for side in even)
                table[np.ix_(rows, columns)] = _EvenMoves(held, wanted, matrix).seconds(prices, itemsize)
    even_rows, even_columns = set(rows), set(columns)
    for row, source in enumerate(sources):
        if row in even_rows and len(columns) == len(targets):
            continue
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


class _Even(NamedTuple):
    """A layout that cuts evenly, on prime axes: those that cut each dim, those of its terms, and a rank's elements."""

    shape: tuple[int, ...]
    axes: tuple[Axes, ...]
    terms: int
    is_sum: bool
    size: int
    canonical: Layout


@lru_cache(_LAYOUTS_KEPT)
def _even(layout: Layout, matrix: DeviceMatrix) -> _Even | None:
    """Return a layout on the prime axes of a matrix; None where it has parts of several sizes, or is elsewhere."""
    if layout.bounds or layout.devices.ranks or layout.devices.first_rank != matrix.first_rank:
        return None
    if any(extent % cut for extent, cut in zip(layout.global_shape, layout.cuts, strict=True)):
        return None
    fine = layout.reshaped_devices(matrix.shape)
    return _Even(
        layout.global_shape,
        tuple(map(tuple, fine.cutting_axes)),
        _mask(fine.partial),
        layout.reduction == "sum",
        prod(layout.global_shape) // prod(layout.cuts),
        layout.canonical,
    )


class _Side:
    """The sequences of axes by which some layouts cut a dim: each once, and ``numbers``, which of them a layout has."""

    def __init__(self, axes: Sequence[Axes], longest: int) -> None:
        known: dict[Axes, int] = {}
        self.numbers = np.array([known.setdefault(one, len(known)) for one in axes])
        self.distinct = list(known)
        self.lengths = np.array([len(one) for one in self.distinct])
        self.padded = np.full((len(known), longest), -1)
        self.masks = np.zeros((len(known), longest + 1), np.int64)
        self.ascends = np.ones((len(known), longest + 1), bool)
        for row, one in enumerate(self.distinct):
            self.padded[row, : len(one)] = one
            for place in range(len(one)):
                self.masks[row, place] = _mask(one[place:])
                self.ascends[row, place] = one[place:] == tuple(sorted(one[place:]))

    def bounds(self, places: Sequence[int], extent: int, prime: int) -> Array:
        """Return where the part of the rank at ``places`` begins and ends by each sequence."""
        found = []
        for axes in self.distinct:
            length, part = extent // int(prime ** len(axes)), 0
            for axis in axes:
                part = part * prime + places[axis]
            found.append((part * length, (part + 1) * length))
        return np.array(found)


class _DimChanges:
    """What becomes of a dim, for each sequence of axes that cuts it before (rows), and each after (columns).

    ``joined`` are the axes, as a mask, along which its blocks are joined by a gather, ``scattered`` those along which
    each of its blocks is cut in order; 0 where it takes more than that. Along those ``moved`` ranks exchange. ``lost``
    says that an axis cuts it no more as it did.
    """

    def __init__(self, before: _Side, after: _Side) -> None:
        self.before, self.after = before, after
        same = before.padded[:, None] == after.padded[None]
        same &= before.padded[:, None] >= 0
        kept = np.logical_and.accumulate(same, 2).sum(2)
        rows, columns = np.arange(len(before.distinct))[:, None], np.arange(len(after.distinct))[None]
        left, come = before.masks[rows, kept], after.masks[columns, kept]
        self.lost = kept < before.lengths[:, None]
        gains = kept < after.lengths[None]
        self.changed = (self.lost | gains).astype(np.int64)
        self.moved = left | come
        self.joined = np.where(~gains & before.ascends[rows, kept], left, 0)
        self.scattered = np.where(~self.lost & after.ascends[columns, kept], come, 0)

    def of_layouts(self, table: Array) -> Array:
        """Return a table of sequences as one of layouts."""
        found: Array = table[self.before.numbers[:, None], self.after.numbers[None]]
        return found

    def overlap(self, places: Sequence[int], extent: int, prime: int) -> Array:
        """Return how many elements along a dim the rank at ``places`` holds and keeps."""
        held, wanted = (side.bounds(places, extent, prime) for side in (self.before, self.after))
        stop = np.minimum(held[:, None, 1], wanted[None, :, 1])
        found: Array = np.maximum(stop - np.maximum(held[:, None, 0], wanted[None, :, 0]), 0)
        return found


class _EvenMoves:
    """Moves from layouts that cut evenly to others, as tables with a row for each source, a column for each target."""

    def __init__(self, sources: Sequence[_Even], targets: Sequence[_Even], matrix: DeviceMatrix) -> None:
        self._matrix, self._prime = matrix, matrix.shape[0]
        self._shape = sources[0].shape
        known: dict[Layout, int] = {}
        held, wanted = (
            np.array([known.setdefault(one.canonical, len(known)) for one in side]) for side in (sources, targets)
        )
        self._stays = held[:, None] == wanted[None]
        self._partial = np.array([one.terms for one in sources])[:, None]
        self._is_sum = np.array([one.is_sum for one in sources])[:, None]
        self._held, self._wanted = (np.array([one.size for one in side]) for side in (sources, targets))
        self._dims = [
            _DimChanges(*(_Side([one.axes[dim] for one in side], len(matrix.shape)) for side in (sources, targets)))
            for dim in range(len(self._shape))
        ]

    def _all(self, name: str) -> Array:
        tables = (dim.of_layouts(getattr(dim, name)) for dim in self._dims)
        return reduce(or_, tables, np.zeros((1, 1), np.int64))

    def seconds(self, prices: Prices, itemsize: int) -> Array:
        """Return the seconds of each move: its terms are summed, all or to the target's parts, then parts are moved."""
        shape = self._held.size, self._wanted.size
        held = np.broadcast_to(self._held[:, None], shape) * itemsize
        wanted = np.broadcast_to(self._wanted[None], shape) * itemsize
        terms = np.broadcast_to(self._partial, shape)
        changed = sum((dim.of_layouts(dim.changed) for dim in self._dims), np.zeros(shape, np.int64))
        scattered = np.where((changed == 1) & self._is_sum, self._all("scattered"), 0)
        scattered = np.where(scattered & ~terms == 0, scattered, 0)
        left = np.where(scattered > 0, 0, changed)
        joined = np.where(left == 1, self._all("joined"), 0)
        lost = self._all("lost") > 0
        moved = np.where((left > 0) & (joined == 0) & lost, self._all("moved"), 0)
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
        for rank in {members[0], members[len(members) // 2], members[-1]}:
            places = self._matrix.coordinates(rank)
            kept: Array = np.ones((self._held.size, self._wanted.size), np.int64)
            for dim, extent in zip(self._dims, self._shape, strict=True):
                kept = kept * dim.of_layouts(dim.overlap(places, extent, self._prime))
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


def _mask(axes: Axes) -> int:
    mask = 0
    for axis in axes:
        mask |= 1 << axis
    return mask


def _axes(mask: int) -> Axes:
    return tuple(axis for axis in range(mask.bit_length()) if mask >> axis & 1)
