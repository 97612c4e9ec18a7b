"""How many bytes each place of a target would find on each rank of a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpiparallel.reshard.moves import gather_ways
from mpiparallel.reshard.part_overlaps import Integers, part_overlaps
from mpiparallel.reshard.plan import LayoutPair
from mpiparallel.reshard.rank_tables import RankTables, part_sizes


@dataclass(frozen=True)
class WayVolumes:
    """One way: the source part on each candidate and the target part of each place (-1: none), and what parts share.

    ``codes``, ascending, are source part times ``target_parts`` plus target part; ``shared`` the bytes in both.
    """

    on_candidate: Integers
    of_place: Integers
    target_parts: int
    codes: Integers
    shared: Integers

    def between(self, places: NDArray[np.intp], candidates: NDArray[np.intp]) -> Integers:
        """Return the bytes that are shared by places and candidates, broadcast against each other."""
        given, wanted = self.on_candidate[candidates], self.of_place[places]
        if not self.codes.size:
            return np.zeros(np.broadcast_shapes(given.shape, wanted.shape), np.int64)
        code = given * self.target_parts + wanted
        at = np.minimum(np.searchsorted(self.codes, code), self.codes.size - 1)
        met = (self.codes[at] == code) & (given >= 0) & (wanted >= 0) & (candidates >= 0)
        found: Integers = np.where(met, self.shared[at], 0)
        return found

    @property
    def pairs(self) -> int:
        """How many pairs of a place and a candidate share something."""
        if not self.codes.size:
            return 0
        candidates = np.bincount(self.on_candidate + 1, minlength=int(self.codes[-1]) // self.target_parts + 2)[1:]
        places = np.bincount(self.of_place + 1, minlength=self.target_parts + 1)[1:]
        given, wanted = np.divmod(self.codes, self.target_parts)
        return int((candidates[given] * places[wanted]).sum())

    @property
    def same_everywhere(self) -> bool:
        """Whether each place finds as much on any candidate as on any other."""
        return bool((self.on_candidate == 0).all()) and bool((self.codes < self.target_parts).all())

    def shared_pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Integers]:
        """Return the places and the candidates of these pairs, and their bytes."""
        by_part = np.argsort(self.on_candidate, kind="stable")
        sorted_parts = self.on_candidate[by_part]
        holders_from = np.searchsorted(sorted_parts, np.arange(int(sorted_parts[-1]) + 2))
        takers_by_part = np.argsort(self.of_place, kind="stable")
        takers_from = np.searchsorted(self.of_place[takers_by_part], np.arange(self.target_parts + 1))
        given, wanted = np.divmod(self.codes, self.target_parts)
        known = given < holders_from.size - 1
        given, wanted, shared = given[known], wanted[known], self.shared[known]
        holders = holders_from[given + 1] - holders_from[given]
        takers = takers_from[wanted + 1] - takers_from[wanted]
        counts = holders * takers
        pair = np.repeat(np.arange(counts.size), counts)
        index = np.arange(pair.size) - np.repeat(np.cumsum(counts) - counts, counts)
        taker, holder = np.divmod(index, holders[pair])
        return (
            takers_by_part[takers_from[wanted[pair]] + taker],
            by_part[holders_from[given[pair]] + holder],
            shared[pair],
        )


class Volumes:
    """The bytes that places of a target share with candidates for them, summed over all tensors."""

    def __init__(
        self,
        layouts: Mapping[str, LayoutPair],
        itemsizes: Mapping[str, int] | None,
        places: Integers,
        candidates: Integers,
    ) -> None:
        self.places, self.candidates = places, candidates
        self.total = 0
        self.ways: list[WayVolumes] = []
        tables = RankTables(layout for pair in layouts.values() for layout in pair)
        for way, weight in gather_ways(layouts, itemsizes).items():
            source, target = tables.holders(way.source), tables.holders(way.target)
            overlaps = part_overlaps(way.source, way.target)
            codes = overlaps.source * len(target.places) + overlaps.target
            order = np.argsort(codes)
            of_place = _looked_up(target.part, tables.ranks, places)
            self.ways.append(
                WayVolumes(
                    _looked_up(source.part, tables.ranks, candidates),
                    of_place,
                    len(target.places),
                    codes[order],
                    overlaps.size[order] * weight,
                )
            )
            self.total += int(part_sizes(way.target)[of_place[of_place >= 0]].sum()) * weight

    def kept(self, answer: NDArray[np.intp]) -> int:
        """Return the bytes that stay where they are when place ``n`` gets candidate ``answer[n]``, none for -1."""
        everywhere = np.arange(self.places.size)
        return sum(int(way.between(everywhere, answer).sum()) for way in self.ways)

    def dense(self) -> Integers:
        """Return the bytes of each place (rows) on each candidate (columns)."""
        found = np.zeros((self.places.size, self.candidates.size), np.int64)
        rows, columns = np.ix_(np.arange(self.places.size), np.arange(self.candidates.size))
        for way in self.ways:
            found += way.between(rows, columns)
        return found


def _looked_up(part: Integers, ranks: Integers, wanted: Integers) -> Integers:
    """Return the part of each of the ``wanted`` ranks, -1 for those that are not among ``ranks``."""
    at = np.minimum(np.searchsorted(ranks, wanted), ranks.size - 1)
    found: Integers = np.where(ranks[at] == wanted, part[at], -1)
    return found
