"""One tensor on its way from a source to a target layout: who wants which part, shared by tensors that are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.layout.box import Box, sound_box
from mpiparallel.layout.cut import Cut
from mpiparallel.reshard.planning.frame import Frame, PartRanges, Parts

Ends = tuple[tuple[int, int], ...]


class Takers:
    """The ranks that lack a source part and want some of it, each with its target parts; and the turn of each."""

    def __init__(self, ranks: Iterable[tuple[int, Parts]] = ()) -> None:
        self.ranks = tuple(ranks)
        self._turns: dict[int, int] = {}

    @property
    def turns(self) -> dict[int, int]:
        """The place of each rank among them."""
        if len(self._turns) < len(self.ranks):
            self._turns = {rank: turn for turn, (rank, _) in enumerate(self.ranks)}
        return self._turns


class FramePair:
    """The source and the target of all tensors that are cut alike before and alike after."""

    def __init__(self, source: Frame, target: Frame) -> None:
        self.source = source
        self.target = target
        self._takers: dict[tuple[Parts, PartRanges], Takers] = {}
        self._near_takers: dict[tuple[Parts, PartRanges, int], Takers] = {}

    def takers(self, parts: Parts, ranges: PartRanges, hosts: Hosts | None) -> Takers:
        """Return who wants some of source ``parts`` and finds no holder on its host; ``ranges`` are the target parts.

        A walk over the holders of these target parts, unless strides tell that each of them holds ``parts``.
        """
        key = (parts, ranges)
        if key not in self._takers:
            self._takers[key] = self._find_takers(parts, ranges, hosts)
        return self._takers[key]

    def _find_takers(self, parts: Parts, ranges: PartRanges, hosts: Hosts | None) -> Takers:
        if not all(ranges) or self.source.all_hold(parts, self.target, ranges):
            return Takers()
        holders = self.source.holder_set(parts)
        found = [
            (rank, wanted) for wanted in product(*ranges) for rank in self.target.holders(wanted) if rank not in holders
        ]
        if hosts is not None and found:
            served = {hosts.host(rank) for rank in holders}
            found = [(rank, wanted) for rank, wanted in found if hosts.host(rank) not in served]
        return Takers(found)

    def takers_on(self, parts: Parts, ranges: PartRanges, ranks: Iterable[int], host: int) -> Takers:
        """Return who of the ``ranks`` of a host wants some of source ``parts`` and does not hold it."""
        key = (parts, ranges, host)
        if key not in self._near_takers:
            wanting = [(rank, self.target.parts(rank)) for rank in ranks if self.source.parts(rank) != parts]
            self._near_takers[key] = Takers(
                (rank, wanted) for rank, wanted in wanting if wanted is not None and _lies_in(wanted, ranges)
            )
        return self._near_takers[key]


def _lies_in(parts: Parts, ranges: PartRanges) -> bool:
    return all(part in range_ for part, range_ in zip(parts, ranges, strict=True))


class TensorMove:
    """A pair of frames and the shape of a tensor: where its parts begin and end before and after."""

    __slots__ = ("_largest_target", "_source_ends", "_target_ranges", "pair", "shape")

    def __init__(self, pair: FramePair, shape: tuple[int, ...]) -> None:
        self.pair = pair
        self.shape = shape
        self._largest_target: list[int] | None = None
        self._source_ends: dict[Parts, Ends] = {}
        self._target_ranges: dict[Parts, PartRanges] = {}

    def source_ends(self, parts: Parts) -> Ends:
        """Return the ``[start, stop)`` of source ``parts`` in each dim."""
        ends = self._source_ends.get(parts)
        if ends is None:
            ends = self._source_ends[parts] = _ends(self.pair.source.cuts, self.shape, parts)
        return ends

    def target_ends(self, parts: Parts) -> Ends:
        """Return the ``[start, stop)`` of target ``parts`` in each dim."""
        return _ends(self.pair.target.cuts, self.shape, parts)

    def source_pieces(self, ends: Ends) -> Iterator[tuple[Parts, Box]]:
        """Yield the source parts with an element between these ``ends``, each with the box of what is between them."""
        return _pieces(self.pair.source.cuts, self.shape, ends)

    def target_pieces(self, ends: Ends) -> Iterator[tuple[Parts, Box]]:
        """Yield the target parts with an element between these ``ends``, each with the box of what is between them."""
        return _pieces(self.pair.target.cuts, self.shape, ends)

    def target_ranges(self, parts: Parts) -> PartRanges:
        """Return in each dim the target parts that share an element with source ``parts``."""
        ranges = self._target_ranges.get(parts)
        if ranges is None:
            dims = zip(self.pair.target.cuts, self.shape, self.source_ends(parts), strict=True)
            ranges = tuple([cut.between(extent, *ends) for cut, extent, ends in dims])
            self._target_ranges[parts] = ranges
        return ranges

    def largest_block(self, parts: Parts) -> int:
        """Return how many elements of source ``parts`` a target part can have at most."""
        if self._largest_target is None:
            self._largest_target = [stop - start for start, stop in self.target_ends((0,) * len(parts))]
        elements = 1
        for (start, stop), largest in zip(self.source_ends(parts), self._largest_target, strict=True):
            elements *= min(stop - start, largest)
        return elements


def _ends(cuts: Sequence[Cut], shape: tuple[int, ...], parts: Parts) -> Ends:
    return tuple([cut.bounds(extent, part) for cut, extent, part in zip(cuts, shape, parts, strict=True)])


def _pieces(cuts: Sequence[Cut], shape: tuple[int, ...], ends: Ends) -> Iterator[tuple[Parts, Box]]:
    dims = [cut.pieces(extent, *between) for cut, extent, between in zip(cuts, shape, ends, strict=True)]
    parts, starts, stops = ([dim[place] for dim in dims] for place in range(3))
    return zip(product(*parts), map(sound_box, product(*starts), product(*stops)), strict=True)


def shared_box(first: Ends, second: Ends) -> Box:
    """Return the box of what lies between both ends, which share an element."""
    ends = tuple(zip(first, second, strict=True))
    return sound_box(
        tuple([a if a > b else b for (a, _), (b, _) in ends]), tuple([a if a < b else b for (_, a), (_, b) in ends])
    )
