"""Bytes summed by pairs of ranks, of which far more are entered than there are pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mpiparallel.errors import ReshardError
from mpiparallel.reshard.forecast.part_overlaps import Integers

# Entries are merged when they are as many; a quarter of a gigabyte of them.
_ENTRIES = 1 << 24
_MOST_PAIRS = 1 << 27
# Up to this number of pairs (128 MiB) a table of all pairs is the quickest sum.
_TABLE_PAIRS = 1 << 24


class PairBytes:
    """The bytes that go from each place to each other among ``count`` of them.

    >>> pairs = PairBytes(3)
    >>> pairs.add(np.array([0, 0, 2]), np.array([1, 2, 1]), np.array([5, 6, 7]))
    >>> pairs.add(np.array([0]), np.array([1]), np.array([1]))
    >>> [column.tolist() for column in pairs.sums()]
    [[0, 0, 2], [1, 2, 1], [6, 6, 7]]
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._table = np.zeros(count * count if count * count <= _TABLE_PAIRS else 0, np.int64)
        self._codes: list[Integers] = []
        self._bytes: list[Integers] = []
        self._entries = 0

    def add(self, givers: Integers, takers: Integers, sizes: Integers) -> None:
        """Enter ``sizes`` bytes from places to places. Raises ReshardError where there are too many pairs."""
        codes = givers * self._count + takers
        if self._table.size:
            np.add.at(self._table, codes, sizes)
            return
        self._codes.append(codes)
        self._bytes.append(sizes)
        self._entries += codes.size
        # Merged entries count once more, so that merging them again and again does not take all the time.
        if self._entries > max(_ENTRIES, 2 * self._codes[0].size):
            self._merge()

    def sums(self) -> tuple[Integers, Integers, Integers]:
        """Return giver, taker and bytes of all pairs between which something goes, by giver and taker."""
        if self._table.size:
            codes = np.flatnonzero(self._table)
            return codes // self._count, codes % self._count, self._table[codes]
        self._merge()
        return self._codes[0] // self._count, self._codes[0] % self._count, self._bytes[0]

    def _merge(self) -> None:
        codes = np.concatenate(self._codes or [np.zeros(0, np.int64)])
        sizes = np.concatenate(self._bytes or [np.zeros(0, np.int64)])
        order = self._order(codes)
        codes, sizes = codes[order], sizes[order]
        first = np.flatnonzero(np.diff(codes, prepend=-1))
        self._codes = [codes[first]]
        self._bytes = [np.add.reduceat(sizes, first) if first.size else sizes]
        self._entries = first.size
        if self._entries > _MOST_PAIRS:
            raise ReshardError(
                f"more than {_MOST_PAIRS} pairs of ranks exchange something, too many to count; a target whose cuts "
                "are nearer to the source's needs fewer messages"
            )

    def _order(self, codes: Integers) -> NDArray[np.intp]:
        """Return what sorts ``codes``."""
        if self._count > 1 << 16:
            return np.argsort(codes)
        # Numbers of two bytes are sorted by radix, which is faster: by taker first, and what one giver gives stays so.
        givers, takers = (ends.astype(np.uint16) for ends in np.divmod(codes, self._count))
        by_taker = np.argsort(takers, kind="stable")
        return by_taker[np.argsort(givers[by_taker], kind="stable")]
