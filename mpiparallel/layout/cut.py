"""How one dim is cut: which elements are in which part, for any extent."""

from __future__ import annotations

from mpiparallel.dataclass import dataclass
from mpiparallel.layout.box import part_at, part_bounds

Pieces = tuple[list[int], list[int], list[int]]


@dataclass(frozen=True)
class Cut:
    """A dim cut into ``parts``, each ``shards``-th of them a shard of a larger part; or into ``given`` ranges.

    The extent of the dim is named with each question, so one cut serves every tensor that is cut so.

    >>> Cut(4, shards=2).bounds(6, 1)
    (2, 3)
    """

    parts: int
    shards: int = 1
    given: tuple[tuple[int, int], ...] = ()

    def bounds(self, extent: int, part: int) -> tuple[int, int]:
        """Return the ``[start, stop)`` of ``part`` of a dim of ``extent``."""
        if self.given:
            return self.given[part]
        if self.parts == 1:
            return 0, extent
        if self.shards == 1:
            return part_bounds(extent, self.parts, part)
        outer, shard = divmod(part, self.shards)
        start, stop = part_bounds(extent, self.parts // self.shards, outer)
        first, last = part_bounds(stop - start, self.shards, shard)
        return start + first, start + last

    def between(self, extent: int, start: int, stop: int) -> range | tuple[int, ...]:
        """Return the parts with an element in ``[start, stop)``, ascending; a range where none in between is empty."""
        if self.given:
            ranges = enumerate(self.given)
            return tuple(part for part, (first, last) in ranges if max(first, start) < min(last, stop))
        if start >= stop:
            return range(0)
        if self.parts == 1:
            return range(1)
        spanned = range(self._at(extent, start), self._at(extent, stop - 1) + 1)
        in_one = spanned[0] // self.shards == spanned[-1] // self.shards
        if in_one or self.shards == 1 or extent // (self.parts // self.shards) >= self.shards:
            return spanned
        return tuple(part for part in spanned if len(range(*self.bounds(extent, part))))

    def pieces(self, extent: int, start: int, stop: int) -> Pieces:
        """Return the parts with an element in ``[start, stop)``, and where what they share with it starts and stops.

        >>> Cut(4).pieces(10, 2, 7)
        ([0, 1, 2], [2, 3, 6], [3, 6, 7])
        """
        if start >= stop:
            return [], [], []
        if self.given:
            found = self.between(extent, start, stop)
            ends = [self.given[part] for part in found]
            return list(found), [max(first, start) for first, _ in ends], [min(last, stop) for _, last in ends]
        if self.shards == 1:
            return _even_pieces(extent, self.parts, start, stop)
        parts: list[int] = []
        starts: list[int] = []
        stops: list[int] = []
        outer_parts = self.parts // self.shards
        for outer, first, last in zip(*_even_pieces(extent, outer_parts, start, stop), strict=True):
            low, high = part_bounds(extent, outer_parts, outer)
            shards, begins, finishes = _even_pieces(high - low, self.shards, first - low, last - low)
            parts += [outer * self.shards + shard for shard in shards]
            starts += [low + begin for begin in begins]
            stops += [low + end for end in finishes]
        return parts, starts, stops

    def _at(self, extent: int, element: int) -> int:
        if self.shards == 1:
            return part_at(extent, self.parts, element)
        outer = part_at(extent, self.parts // self.shards, element)
        start, stop = part_bounds(extent, self.parts // self.shards, outer)
        return outer * self.shards + part_at(stop - start, self.shards, element - start)


def _even_pieces(extent: int, parts: int, start: int, stop: int) -> Pieces:
    if parts == 1:
        return [0], [start], [stop]
    part = first = part_at(extent, parts, start)
    size, larger = divmod(extent, parts)
    end = (part + 1) * size + min(part + 1, larger)
    starts, stops = [start], []
    while end < stop:
        stops.append(end)
        starts.append(end)
        part += 1
        end += size + 1 if part < larger else size
    stops.append(stop)
    return list(range(first, part + 1)), starts, stops
