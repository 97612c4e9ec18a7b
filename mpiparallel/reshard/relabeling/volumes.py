"""How many bytes each place of a target would find on each rank of a source."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mpiparallel.dataclass import dataclass
from mpiparallel.reshard.forecast.part_overlaps import Integers, part_overlaps
from mpiparallel.reshard.forecast.rank_tables import RankTables, part_sizes
from mpiparallel.reshard.forecast.reduced_layout_pair import gather_reduced_pairs
from mpiparallel.reshard.planning.layout_digest import LayoutPair


@dataclass(frozen=True)
class PairVolumes:
    """A reduced pair: the source part on each candidate, the target part of each place (-1: none), what parts share.

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

    def pair_count(self) -> int:
        """Return how many pairs of a place and a candidate share something."""
        given, wanted = np.divmod(self.codes, self.target_parts)
        holders = np.bincount(self.on_candidate + 1, minlength=int(given.max(initial=0)) + 2)[1:]
        takers = np.bincount(self.of_place + 1, minlength=self.target_parts + 1)[1:]
        return int((holders[given] * takers[wanted]).sum())

    def is_same_everywhere(self) -> bool:
        """Return whether each place finds on any candidate what it finds on any other."""
        return bool((self.on_candidate == 0).all()) and bool((self.codes < self.target_parts).all())

    def shared_pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Integers]:
        """Return the places and the candidates of these pairs, and the bytes of each."""
        given, wanted = np.divmod(self.codes, self.target_parts)
        holders, holders_from = _by_part(self.on_candidate, int(given.max(initial=0)) + 1)
        takers, takers_from = _by_part(self.of_place, self.target_parts)
        width = holders_from[given + 1] - holders_from[given]
        counts = width * (takers_from[wanted + 1] - takers_from[wanted])
        pair = np.repeat(np.arange(counts.size), counts)
        index = np.arange(pair.size) - np.repeat(np.cumsum(counts) - counts, counts)
        taker, holder = np.divmod(index, width[pair])
        places = takers[takers_from[wanted[pair]] + taker]
        return places, holders[holders_from[given[pair]] + holder], self.shared[pair]


def _by_part(part: Integers, parts: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return who holds a part, sorted by it, and where each part begins."""
    order = np.argsort(part, kind="stable")
    return order, np.searchsorted(part[order], np.arange(parts + 1))


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
        self.reduced_pairs: list[PairVolumes] = []
        tables = RankTables(layout for pair in layouts.values() for layout in pair)
        for reduced, weights in gather_reduced_pairs(layouts, itemsizes).items():
            weight = sum(weights.values())
            source, target = tables.holders(reduced.source), tables.holders(reduced.target)
            overlaps = part_overlaps(reduced.source, reduced.target)
            codes = overlaps.source * len(target.places) + overlaps.target
            order = np.argsort(codes)
            of_place = _looked_up(target.part, tables.ranks, places)
            self.reduced_pairs.append(
                PairVolumes(
                    _looked_up(source.part, tables.ranks, candidates),
                    of_place,
                    len(target.places),
                    codes[order],
                    overlaps.size[order] * weight,
                )
            )
            self.total += int(part_sizes(reduced.target)[of_place[of_place >= 0]].sum()) * weight

    def kept(self, answer: NDArray[np.intp]) -> int:
        """Return the bytes that stay where they are when place ``n`` gets candidate ``answer[n]``, none for -1."""
        everywhere = np.arange(self.places.size)
        return sum(int(reduced.between(everywhere, answer).sum()) for reduced in self.reduced_pairs)

    def dense(self) -> Integers:
        """Return the bytes of each place (rows) on each candidate (columns)."""
        found = np.zeros((self.places.size, self.candidates.size), np.int64)
        rows, columns = np.ix_(np.arange(self.places.size), np.arange(self.candidates.size))
        for reduced in self.reduced_pairs:
            found += reduced.between(rows, columns)
        return found


def _looked_up(part: Integers, ranks: Integers, wanted: Integers) -> Integers:
    """Return the part of each of the ``wanted`` ranks, -1 for those that are not among ``ranks``."""
    at = np.minimum(np.searchsorted(ranks, wanted), ranks.size - 1)
    found: Integers = np.where(ranks[at] == wanted, part[at], -1)
    return found
