"""The assignment of parts to replicas for all ranks at once, as `replica_rule` has it for one rank at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mpiparallel.dataclass import dataclass
from mpiparallel.reshard.forecast.part_overlaps import Integers, part_bounds_of_dim
from mpiparallel.reshard.forecast.rank_tables import Arrivals, Holders
from mpiparallel.reshard.forecast.reduced_layout_pair import ReducedLayoutPair
from mpiparallel.reshard.planning.replica_rule import STARTS, golden_step

# 64 MiB.
_TABLE_CELLS = 1 << 23


@dataclass(frozen=True)
class ReplicaAssignment:
    """What of one pair of layouts groups of holders give, in blocks of at most ``largest`` elements.

    Each share has a ``group``: a number that is equal for equal groups of holders in all pairs. ``count`` is how many
    entries it has. After ``period`` turns givers come again in the same order. Each entry has its ``share``, its
    ``turn`` there, the ``place`` of the taker, and a ``size`` in elements. Its ``givers`` are so many, from ``start``
    in ``holders``; ``step`` is that of their rounds.
    """

    largest: int
    group: Integers
    count: Integers
    period: Integers
    share: Integers
    turn: Integers
    place: Integers
    size: Integers
    givers: Integers
    start: Integers
    step: Integers
    holders: Integers

    def transfers(self, tensors: Sequence[tuple[Integers, int]]) -> Iterator[tuple[Integers, Integers, Integers]]:
        """Yield places of givers and of takers and the bytes that pass, in chunks.

        ``tensors`` has for each tensor the turn with which each share begins, and the bytes of an element.
        """
        everyone = slice(0, self.place.size)
        most_givers = int(self.givers.max())
        if 4 * len(tensors) < most_givers:
            for first_turns, weight in tensors:
                givers = self.holders[self.start + self._givers(first_turns, everyone)]
                yield givers, self.place, self.size * weight
            return
        # Many tensors and few givers: a table of both sums up what the same giver gives in different turns.
        length = max(1, _TABLE_CELLS // most_givers)
        for begin in range(0, self.place.size, length):
            chunk = slice(begin, begin + length)
            count = self.place[chunk].size
            table = np.zeros(count * most_givers, np.int64)
            row = np.arange(count) * most_givers
            for first_turns, weight in tensors:
                table[row + self._givers(first_turns, chunk)] += self.size[chunk] * weight
            cells = np.flatnonzero(table)
            entry, giver = np.divmod(cells, most_givers)
            yield self.holders[self.start[chunk][entry] + giver], self.place[chunk][entry], table[cells]

    def _givers(self, first_turns: Integers, entries: slice) -> Integers:
        """Return which of its givers each of the ``entries`` falls to, as ``replica_rule`` has it for one."""
        givers = self.givers[entries]
        rounds, place = np.divmod(first_turns[self.share[entries]] + self.turn[entries], givers)
        found: Integers = (place + rounds // 2 % STARTS * self.step[entries]) % givers
        return found


class ReplicaAssignmentBuilder:
    """Makes the assignments of pairs of layouts, and knows which of them are among the same holders.

    ``hosts`` has the host of each place, None where hosts are not known.
    """

    def __init__(self, hosts: Integers | None) -> None:
        self._hosts = hosts
        self._groups: dict[Hashable, int] = {}

    @property
    def group_count(self) -> int:
        """How many groups of holders there are so far."""
        return len(self._groups)

    def assignments(
        self, reduced: ReducedLayoutPair, arrivals: Arrivals, holders: Holders
    ) -> Iterator[ReplicaAssignment]:
        """Yield which of the ``holders`` of the source parts of ``reduced`` give the ``arrivals``."""
        parts, replicas = holders.places.shape
        near_keys, near_holders = self._near(holders)
        key, near = self._keys(arrivals, parts, near_keys)
        # Takers on one host are in the order of their ranks, all others in that of their parts and replicas.
        order = np.lexsort((arrivals.replica, np.where(near, arrivals.place, arrivals.target_part), key))
        keys, first, count = np.unique(key[order], return_index=True, return_counts=True)
        far = keys < parts
        start = np.where(far, keys * replicas, holders.places.size + np.searchsorted(near_keys, keys - parts))
        last = np.searchsorted(near_keys, keys - parts, side="right")
        stop = np.where(far, start + replicas, holders.places.size + last)
        all_holders = np.concatenate([holders.places.ravel(), near_holders])
        # Where ranks are given one by one the rule tells groups apart from those that arithmetic gives.
        kind = [reduced.source.devices.ranks != () if is_far else None for is_far in far.tolist()]
        groups = self._numbers(kind, all_holders, start, stop)
        sizes = stop - start
        steps = _golden_steps(sizes)
        largest = _largest_blocks(reduced)[keys % parts]
        share = np.repeat(np.arange(keys.size), count)
        turn = np.arange(order.size) - np.repeat(first, count)
        for block in np.unique(largest).tolist():
            here = np.flatnonzero(largest == block)
            inside = np.isin(share, here)
            entries, whose = order[inside], share[inside]
            yield ReplicaAssignment(
                block,
                groups[here],
                count[here],
                np.where(sizes > 1, 2 * STARTS * sizes, 1)[here],
                np.searchsorted(here, whose),
                turn[inside],
                arrivals.place[entries],
                arrivals.size[entries],
                sizes[whose],
                start[whose],
                steps[whose],
                all_holders,
            )

    def _near(self, holders: Holders) -> tuple[Integers, Integers]:
        """Return a key of part and host for each holder, ascending, and the place of that holder."""
        if self._hosts is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        place = holders.places.ravel()
        keys = self._hosts[place] * len(holders.places) + holders.part[place]
        order = np.lexsort((place, keys))
        return keys[order], place[order]

    def _keys(self, arrivals: Arrivals, parts: int, near_keys: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return for each arrival what is equal within a share, and whether a holder is on its host."""
        if self._hosts is None:
            return arrivals.part, np.zeros(arrivals.part.size, bool)
        wanted = self._hosts[arrivals.place] * parts + arrivals.part
        near = near_keys[np.minimum(np.searchsorted(near_keys, wanted), near_keys.size - 1)] == wanted
        return np.where(near, wanted + parts, arrivals.part), near

    def _numbers(self, kind: list[bool | None], holders: Integers, start: Integers, stop: Integers) -> Integers:
        """Return the number of the group of each share."""
        ends = zip(kind, start.tolist(), stop.tolist(), strict=True)
        names = [(which, holders[first:last].tobytes()) for which, first, last in ends]
        return np.array([self._groups.setdefault(name, len(self._groups)) for name in names], np.int64)


def _golden_steps(sizes: Integers) -> Integers:
    different, index = np.unique(sizes, return_inverse=True)
    return np.array([golden_step(size) for size in different.tolist()], np.int64)[index]


def _largest_blocks(reduced: ReducedLayoutPair) -> Integers:
    """Return for each source part how many elements of it a target part can have at most."""
    found = np.ones(1, np.int64)
    for dim in range(len(reduced.source.global_shape)):
        starts, stops = part_bounds_of_dim(reduced.source, dim)
        first, last = (int(ends[0]) for ends in part_bounds_of_dim(reduced.target, dim))
        found = (found[:, None] * np.minimum(stops - starts, last - first)).ravel()
    return found
