"""Which ranks hold which part of a layout, as tables over all ranks of a reshard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpiparallel.dataclass import dataclass
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout, TensorMap
from mpiparallel.reshard.forecast.part_overlaps import Integers, part_bounds_of_dim, part_overlaps, part_ranks


@dataclass(frozen=True)
class Holders:
    """Where the parts of a layout are: ``places[part, replica]`` is the place of a rank, ``part[place]`` -1 outside."""

    places: Integers
    part: Integers


@dataclass(frozen=True)
class Arrivals:
    """What reaches ranks that do not hold it already: ``size`` elements of source part ``part`` for each entry.

    The taker at ``place`` holds copy ``replica`` of target part ``target_part``.
    """

    part: Integers
    place: Integers
    target_part: Integers
    replica: Integers
    size: Integers


class Holding(NamedTuple):
    """Elements that each rank holds before and after; of those after, what stays as it is and what the rank copies."""

    before: Integers
    after: Integers
    kept: Integers
    copied: Integers


class RankTables:
    """The tables of some layouts; places count the ranks of all of them, ascending.

    >>> layout = Layout((8,), DeviceMatrix((2,), 3), ((0,),))
    >>> tables = RankTables([layout])
    >>> tables.ranks.tolist(), tables.holders(layout).part.tolist()
    ([3, 4], [0, 1])
    """

    def __init__(self, layouts: Iterable[Layout]) -> None:
        members = [np.asarray(devices.members, np.int64) for devices in {layout.devices for layout in layouts}]
        self.ranks: Integers = np.unique(np.concatenate(members)) if members else np.zeros(0, np.int64)
        self._holders: dict[tuple[DeviceMatrix, TensorMap], Holders] = {}

    def zeros(self) -> Integers:
        """Return a zero for each rank."""
        return np.zeros(self.ranks.size, np.int64)

    def holders(self, layout: Layout) -> Holders:
        """Return where the parts of ``layout`` are."""
        key = (layout.devices, layout.cutting_axes)
        if key not in self._holders:
            places = np.searchsorted(self.ranks, part_ranks(layout))
            part = np.full(self.ranks.size, -1, np.int64)
            part[places] = np.arange(len(places))[:, None]
            self._holders[key] = Holders(places, part)
        return self._holders[key]

    def follow(self, source: Layout, target: Layout) -> tuple[Holding, Arrivals]:
        """Return what all ranks hold before and after a tensor goes from ``source`` to ``target``, and what arrives."""
        overlaps = part_overlaps(source, target)
        givers, takers = self.holders(source), self.holders(target)
        overlap, replica = _all_pairs(overlaps.size.size, takers.places.shape[1])
        place = takers.places[overlaps.target[overlap], replica]
        own = givers.part[place] == overlaps.source[overlap]
        stays = own & overlaps.same[overlap]
        held = Holding(
            self._held(source),
            self._held(target),
            self._sum(place[stays], overlaps.size[overlap[stays]]),
            self._sum(place[own & ~stays], overlaps.size[overlap[own & ~stays]]),
        )
        overlap, replica, place = overlap[~own], replica[~own], place[~own]
        return held, Arrivals(
            overlaps.source[overlap], place, overlaps.target[overlap], replica, overlaps.size[overlap]
        )

    def _held(self, layout: Layout) -> Integers:
        part = self.holders(layout).part
        held: Integers = np.where(part >= 0, part_sizes(layout)[part], 0)
        return held

    def _sum(self, place: Integers, size: Integers) -> Integers:
        found = self.zeros()
        np.add.at(found, place, size)
        return found


def part_sizes(layout: Layout) -> Integers:
    """Return how many elements each part of ``layout`` has.

    >>> part_sizes(Layout((5, 4), DeviceMatrix((2, 2)), ((0,), (1,)))).tolist()
    [6, 6, 4, 4]
    """
    sizes = np.ones(1, np.int64)
    for dim in range(len(layout.global_shape)):
        starts, stops = part_bounds_of_dim(layout, dim)
        sizes = (sizes[:, None] * (stops - starts)).ravel()
    return sizes


def _all_pairs(first: int, second: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.repeat(np.arange(first), second), np.tile(np.arange(second), first)
