"""How one dim is cut: which elements are in which part, for any extent."""

from __future__ import annotations

from dataclasses import dataclass

from mpiparallel.layout.box import part_at, part_bounds


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
        if extent // (self.parts // self.shards) >= self.shards or self.shards == 1:
            return spanned
        return tuple(part for part in spanned if len(range(*self.bounds(extent, part))))

    def pieces(self, extent: int, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Return the parts with an element in ``[start, stop)``, each with the ``[start, stop)`` of what they share.

        >>> Cut(4).pieces(10, 2, 7)
        [(0, 2, 3), (1, 3, 6), (2, 6, 7)]
        """
        if start >= stop:
            return []
        if self.given:
            shared = ((part, max(first, start), min(last, stop)) for part, (first, last) in enumerate(self.given))
            return [piece for piece in shared if piece[1] < piece[2]]
        if self.shards == 1:
            return _even_pieces(extent, self.parts, start, stop)
        found = []
        outer_parts = self.parts // self.shards
        for outer, first, last in _even_pieces(extent, outer_parts, start, stop):
            low, high = part_bounds(extent, outer_parts, outer)
            inner = _even_pieces(high - low, self.shards, first - low, last - low)
            found += [(outer * self.shards + shard, low + begin, low + end) for shard, begin, end in inner]
        return found

    def _at(self, extent: int, element: int) -> int:
        if self.shards == 1:
            return part_at(extent, self.parts, element)
        outer = part_at(extent, self.parts // self.shards, element)
        start, stop = part_bounds(extent, self.parts // self.shards, outer)
        return outer * self.shards + part_at(stop - start, self.shards, element - start)


def _even_pieces(extent: int, parts: int, start: int, stop: int) -> list[tuple[int, int, int]]:
    if parts == 1:
        return [(0, start, stop)]
    part = part_at(extent, parts, start)
    size, larger = divmod(extent, parts)
    end = (part + 1) * size + min(part + 1, larger)
    found = []
    while end < stop:
        found.append((part, start, end))
        start, part = end, part + 1
        end += size + 1 if part < larger else size
    found.append((part, start, stop))
    return found
