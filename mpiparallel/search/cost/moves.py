"""The prices of all moves from some layouts to others at once; a test holds them to those of the planner's steps.

Layouts are read as sequences of axes for each dim, on a device matrix of prime axes. What a move takes follows from how
the sequences of each dim differ, and there are few of these. Some moves are priced pair by pair: those where the ranks
are no power of a prime, and those from uneven parts of their own. So are those of sums that are wanted in such parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import isqrt, prod
from operator import or_
from typing import Any, Final, NamedTuple

import numpy as np

from mpiparallel.layout.cut import Cut
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Bounds, Layout
from mpiparallel.search.cost.prices import LINEAR, Prices

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]

_FEWEST_PAIRS: Final = 64
_LAYOUTS_KEPT: Final = 1 << 15


def prices_of_moves(prices: Prices, sources: Sequence[Layout], targets: Sequence[Layout], itemsize: int) -> Array:
    """Return the seconds from each source (rows) to each target (columns) of a tensor with items of so many bytes."""
    table = np.zeros((len(sources), len(targets)))
    matrix = prime_axes(sources[0].devices) if len(sources) * len(targets) >= _FEWEST_PAIRS else None
    if matrix is None:
        alone = np.ones(table.shape, bool)
    else:
        known, wanted = ([_on_primes(layout, matrix) for layout in side] for side in (sources, targets))
        alone = _priced_alone(known, wanted)
        rows, columns = ([place for place, one in enumerate(side) if one is not None] for side in (known, wanted))
        if rows and columns:
            on_primes = [[one for one in side if one is not None] for side in (known, wanted)]
            table[np.ix_(rows, columns)] = _Moves(on_primes[0], on_primes[1], matrix).seconds(prices, itemsize)
    for row, column in np.argwhere(alone).tolist():
        table[row, column] = prices.moving(sources[row], targets[column], itemsize)
    return table


def prices_of_pairs(
    prices: Prices, sources: Sequence[Layout], targets: Sequence[Layout], pairs: tuple[Array, Array], itemsize: int
) -> Array:
    """Return the seconds from a source to a target for each of some pairs of their numbers.

    Where there are few layouts, only these pairs are priced.
    """
    if len(sources) * len(targets) >= _FEWEST_PAIRS:
        return prices_of_moves(prices, sources, targets, itemsize)[pairs]
    numbers = zip(pairs[0].tolist(), pairs[1].tolist(), strict=True)
    return np.array([prices.moving(sources[row], targets[column], itemsize) for row, column in numbers], float)


def _priced_alone(sources: Sequence[_OnPrimes | None], targets: Sequence[_OnPrimes | None]) -> Array:
    """Return which pairs are priced alone: of layouts on other ranks, and of terms for parts that overlap."""
    other_source, other_target = (np.array([one is None for one in side]) for side in (sources, targets))
    is_sum = np.array([one is not None and one.terms > 0 for one in sources])
    overlaps = np.array([one is not None and one.is_bounded for one in targets])
    found: Array = other_source[:, None] | other_target | is_sum[:, None] & overlaps
    return found


def prime_axes(devices: DeviceMatrix) -> DeviceMatrix | None:
    """Return the ranks on axes of one prime; None where they are no power of one or do not count up.

    >>> prime_axes(DeviceMatrix((2, 4))).shape
    (2, 2, 2)
    """
    size = devices.size
    prime = next((factor for factor in range(2, isqrt(size) + 1) if size % factor == 0), size)
    shape: tuple[int, ...] = ()
    while prod(shape) < size:
        shape = (*shape, prime)
    return devices.reshaped(shape) if prod(shape) == size and not devices.ranks else None


class _DimCut(NamedTuple):
    """By which prime axes a dim is cut, the last of them into as many optimizer shards; or the bounds of its parts.

    Where the parts are equal it makes no difference which of them are shards.
    """

    axes: Axes
    shards: int
    bounds: Bounds
    is_even: bool

    def range_of(self, places: Sequence[int], extent: int, prime: int) -> tuple[int, int]:
        """Return where the part of the rank at ``places`` begins and ends."""
        part = 0
        for axis in self.axes:
            part = part * prime + places[axis]
        return Cut(prime ** len(self.axes), prime**self.shards, self.bounds).bounds(extent, part)

    def covers(self, other: _DimCut, extent: int, prime: int) -> bool:
        """Return whether each rank has by this cut what it has by another."""
        if (self.axes, self.shards) != (other.axes, other.shards):
            return False
        if not other.bounds:
            return True
        cut = Cut(prime ** len(self.axes), prime**self.shards, self.bounds)
        ranges = (cut.bounds(extent, part) for part in range(cut.parts))
        pairs = zip(ranges, other.bounds, strict=True)
        return all(first >= last or (start <= first and last <= stop) for (start, stop), (first, last) in pairs)


class _OnPrimes(NamedTuple):
    """A layout on prime axes: how each dim is cut, the axes of its terms, and the most elements that a rank has."""

    cuts: tuple[_DimCut, ...]
    terms: int
    is_sum: bool
    is_bounded: bool
    size: int
    canonical: Layout


@lru_cache(_LAYOUTS_KEPT)
def _on_primes(layout: Layout, matrix: DeviceMatrix) -> _OnPrimes | None:
    """Return a layout on the prime axes of a matrix; None where it is elsewhere."""
    if layout.devices.ranks or layout.devices.first_rank != matrix.first_rank:
        return None
    fine = layout.reshaped_devices(matrix.shape)
    bounds = layout.bounds or ((),) * len(layout.global_shape)
    cuts = []
    for dim, (extent, parts, axes, own) in enumerate(
        zip(layout.global_shape, layout.cuts, fine.cutting_axes, bounds, strict=True)
    ):
        is_even = extent % parts == 0
        shards = 0 if is_even or dim else len(fine.optimizer_axes)
        cuts.append(_DimCut(tuple(axes), shards, own, is_even))
    is_sum, terms = layout.reduction == "sum", _mask(fine.partial)
    return _OnPrimes(tuple(cuts), terms, is_sum, any(bounds), layout.largest_size, layout.canonical)


class _Side:
    """The ways in which some layouts cut a dim: each once, and ``numbers``, which of them a layout has."""

    def __init__(self, cuts: Sequence[_DimCut], longest: int) -> None:
        known: dict[_DimCut, int] = {}
        self.numbers = np.array([known.setdefault(one, len(known)) for one in cuts])
        self.distinct = list(known)
        self.lengths = np.array([len(one.axes) for one in self.distinct])
        self.is_even = np.array([one.is_even for one in self.distinct])
        self.is_bounded = np.array([bool(one.bounds) for one in self.distinct])
        self.padded = np.full((len(known), longest), -1)
        self.masks = np.zeros((len(known), longest + 1), np.int64)
        self.ascends = np.ones((len(known), longest + 1), bool)
        for row, (axes, *_) in enumerate(self.distinct):
            self.padded[row, : len(axes)] = axes
            for place in range(len(axes)):
                self.masks[row, place] = _mask(axes[place:])
                self.ascends[row, place] = axes[place:] == tuple(sorted(axes[place:]))

    def ranges(self, places: Sequence[int], extent: int, prime: int) -> Array:
        """Return where the part of the rank at ``places`` begins and ends by each cut."""
        return np.array([cut.range_of(places, extent, prime) for cut in self.distinct])


class _DimChanges:
    """What becomes of a dim, for each cut of it before (rows), and each after (columns).

    ``joined`` is the mask of the axes along which a gather joins its blocks. ``scattered`` is that of the axes along
    which each of its blocks is cut in order. Either is 0 where it takes more than that. Along those ``moved`` ranks
    exchange. ``lost`` says that a rank lacks elements of it, ``changed`` that other axes cut it.
    """

    def __init__(self, before: _Side, after: _Side, extent: int, prime: int) -> None:
        self.before, self.after = before, after
        same = before.padded[:, None] == after.padded[None]
        same &= before.padded[:, None] >= 0
        common = np.logical_and.accumulate(same, 2).sum(2)
        rows, columns = np.arange(len(before.distinct))[:, None], np.arange(len(after.distinct))[None]
        shrinks, grows = common < before.lengths[:, None], common < after.lengths[None]
        self.changed = (shrinks | grows).astype(np.int64)
        # Uneven parts do not nest: none of their axes is in common, unless all of them are.
        nests = before.is_even[:, None] & after.is_even & ~after.is_bounded & ~before.is_bounded[:, None]
        kept = np.where(nests, common, 0)
        moves = ~np.array([[one.covers(other, extent, prime) for other in after.distinct] for one in before.distinct])
        self.lost = moves & (kept < before.lengths[:, None])
        self.moved = np.where(moves, before.masks[rows, kept] | after.masks[columns, kept], 0)
        is_joined = ~grows & before.ascends[rows, common] & before.is_even[:, None]
        self.joined = np.where(is_joined, before.masks[rows, common], 0)
        is_scattered = ~shrinks & after.ascends[columns, common] & after.is_even
        self.scattered = np.where(is_scattered, after.masks[columns, common], 0)

    def of_layouts(self, table: Array) -> Array:
        """Return a table of cuts as one of layouts."""
        found: Array = table[self.before.numbers[:, None], self.after.numbers[None]]
        return found

    def at(self, places: Sequence[int], extent: int, prime: int) -> tuple[Array, Array]:
        """Return how many elements along a dim the rank at ``places`` wants, and how many of them it has."""
        held, wanted = (side.ranges(places, extent, prime) for side in (self.before, self.after))
        stop = np.minimum(held[:, None, 1], wanted[None, :, 1])
        kept: Array = np.maximum(stop - np.maximum(held[:, None, 0], wanted[None, :, 0]), 0)
        return np.maximum(wanted[:, 1] - wanted[:, 0], 0), kept


class _Moves:
    """Moves from layouts to others, as tables with a row for each source, a column for each target."""

    def __init__(self, sources: Sequence[_OnPrimes], targets: Sequence[_OnPrimes], matrix: DeviceMatrix) -> None:
        self._matrix, self._prime = matrix, matrix.shape[0]
        self._shape = sources[0].canonical.global_shape
        known: dict[Layout, int] = {}
        held, wanted = (
            np.array([known.setdefault(one.canonical, len(known)) for one in side]) for side in (sources, targets)
        )
        self._stays = held[:, None] == wanted[None]
        self._partial = np.array([one.terms for one in sources])[:, None]
        self._is_sum = np.array([one.is_sum for one in sources])[:, None]
        self._is_bounded = np.array([one.is_bounded for one in targets])
        self._held, self._wanted = (np.array([one.size for one in side]) for side in (sources, targets))
        self._dims = []
        for dim, extent in enumerate(self._shape):
            before, after = (_Side([one.cuts[dim] for one in side], len(matrix.shape)) for side in (sources, targets))
            self._dims.append(_DimChanges(before, after, extent, self._prime))

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
        stays = scattered > 0
        joined = np.where((changed == 1) & ~stays & ~self._is_bounded, self._all("joined"), 0)
        lost = self._all("lost") > 0
        moved = np.where((joined == 0) & ~stays & lost, self._all("moved"), 0)
        rest = terms & ~scattered
        found = (
            self._priced(prices, "reduce_scatter", scattered, held)
            + self._priced(prices, "reduce", rest, np.where(stays, wanted, held))
            + self._priced(prices, "gather", joined, wanted)
            + self._priced(prices, "exchange", moved, self._received() * itemsize)
        )
        # Nobody computes between the collectives of one move, so who comes first waits in one of them alone.
        collectives = sum((masks > 0).astype(int) for masks in (scattered, rest, joined, moved))
        found -= np.maximum(collectives - 1, 0) * prices.waiting
        return np.where(self._stays, 0.0, found)

    def _received(self) -> Array:
        """Return how many elements a rank gets from others, of the first, the middle and the last rank the most."""
        members = self._matrix.members
        most: Array = np.zeros((1, 1), np.int64)
        for rank in {members[0], members[len(members) // 2], members[-1]}:
            places = self._matrix.coordinates(rank)
            kept: Array = np.ones((self._held.size, self._wanted.size), np.int64)
            wanted: Array = np.ones(self._wanted.size, np.int64)
            for dim, extent in zip(self._dims, self._shape, strict=True):
                along, both = dim.at(places, extent, self._prime)
                wanted = wanted * along[dim.after.numbers]
                kept = kept * dim.of_layouts(both)
            most = np.maximum(most, wanted - kept)
        return most

    def _priced(self, prices: Prices, kind: str, masks: Array, sizes: Array) -> Array:
        """Return the seconds of a collective for each group, as a mask of axes, and bytes; of none for no group."""
        seconds = np.zeros(masks.shape)
        takes_part = masks > 0
        if kind in LINEAR:
            # By its axes, for all sizes: there may be millions of these.
            lines = np.zeros((2, 1 << len(self._matrix.shape)))
            for mask in np.flatnonzero(np.bincount(masks[takes_part], minlength=1)).tolist():
                lines[:, mask] = prices.line(kind, self._matrix, _axes(mask))
            np.add(lines[0][masks], lines[1][masks] * sizes, out=seconds, where=takes_part)
        elif takes_part.any():
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
