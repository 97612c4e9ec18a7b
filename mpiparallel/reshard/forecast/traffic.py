"""The traffic of a whole reshard: what all ranks send, receive, keep and hold, without planning each of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.dataclass import dataclass
from mpiparallel.reshard.forecast.pair_bytes import PairBytes
from mpiparallel.reshard.forecast.part_overlaps import Integers
from mpiparallel.reshard.forecast.rank_tables import RankTables
from mpiparallel.reshard.forecast.reduced_layout_pair import ReducedLayoutPair, check_sizes, gather_reduced_pairs
from mpiparallel.reshard.forecast.replica_assignment import ReplicaAssignment, ReplicaAssignmentBuilder
from mpiparallel.reshard.planning.layout_digest import LayoutPair
from mpiparallel.reshard.planning.plan import check_pair


@dataclass(frozen=True)
class Traffic:
    """What every rank has to do with a reshard, in bytes; equal to the sum of the plans of all ranks.

    Each array has one entry for each of ``ranks``, which are all that hold something before or after, ascending.
    ``before`` and ``after`` is what the rank holds. Of that ``kept`` stays as it is, in the same array, and ``copied``
    goes from the rank's old arrays to its new ones. The rest comes from other ranks: ``pair_bytes[n]`` go from rank
    ``givers[n]`` to ``takers[n]``, each pair once and by ascending ranks. ``moved`` has for each tensor the bytes that
    go from rank to rank.
    """

    ranks: Integers
    before: Integers
    after: Integers
    kept: Integers
    copied: Integers
    givers: Integers
    takers: Integers
    pair_bytes: Integers
    moved: Mapping[str, int]

    @property
    def sent(self) -> Integers:
        """Bytes that each rank sends to others."""
        return self._sum_by(self.givers, self.pair_bytes)

    @property
    def received(self) -> Integers:
        """Bytes that each rank receives from others."""
        return self._sum_by(self.takers, self.pair_bytes)

    @property
    def messages_sent(self) -> Integers:
        """To how many ranks each rank sends."""
        return self._sum_by(self.givers, np.ones_like(self.givers))

    @property
    def messages_received(self) -> Integers:
        """From how many ranks each rank receives."""
        return self._sum_by(self.takers, np.ones_like(self.takers))

    @property
    def bytes_moved(self) -> int:
        """Bytes that go from rank to rank."""
        return int(self.pair_bytes.sum())

    @property
    def bytes_kept(self) -> int:
        """Bytes that stay on their rank, copied inside it or not."""
        return int(self.kept.sum() + self.copied.sum())

    @property
    def safe_peak(self) -> Integers:
        """Bytes of the state that each rank holds at most in safe mode: all old arrays and all new ones, no scratch."""
        return self.before + self.after - self.kept

    def between_hosts(self, hosts: Hosts) -> int:
        """Return how many of the bytes that move go from one host to another."""
        number = _host_numbers(self.ranks, hosts)
        apart = number[self._places(self.givers)] != number[self._places(self.takers)]
        return int(self.pair_bytes[apart].sum())

    def matrix(self, cells: int = 64) -> Integers:
        """Return the bytes from each block of ranks to each other, at most ``cells`` blocks of neighbours a side.

        Rows are givers, columns takers. With no more ranks than ``cells`` each block is one rank; what ranks keep or
        copy is not in it.
        """
        count = min(cells, self.ranks.size)
        found = np.zeros((count, count), np.int64)
        blocks = np.arange(self.ranks.size) * count // max(self.ranks.size, 1)
        np.add.at(found, (blocks[self._places(self.givers)], blocks[self._places(self.takers)]), self.pair_bytes)
        return found

    def _places(self, ranks: Integers) -> Integers:
        return np.searchsorted(self.ranks, ranks)

    def _sum_by(self, ranks: Integers, values: Integers) -> Integers:
        found = np.zeros(self.ranks.size, np.int64)
        np.add.at(found, self._places(ranks), values)
        return found


def traffic(
    layouts: Mapping[str, LayoutPair], hosts: Hosts | None = None, itemsizes: Mapping[str, int] | None = None
) -> Traffic:
    """Return the traffic of all ranks when each tensor goes from its source to its target layout.

    It is exact: the sum of what `plan_reshard` gives every rank for the same arguments. ``itemsizes`` has the bytes of
    an element of each tensor, 1 where it is left out. The work grows with the pairs of ranks that exchange something
    and with how differently tensors are cut. It grows with the number of tensors only where thousands of replicas take
    turns.

    Raises ReshardError for layouts that cannot be planned, a missing itemsize, and more bytes than can be counted.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> from mpiparallel.layout.layout import Layout
    >>> halves, thirds = (Layout((6,), DeviceMatrix((parts,)), ((0,),)) for parts in (2, 3))
    >>> traffic({"weight": (halves, thirds)}, itemsizes={"weight": 4}).matrix().tolist()
    [[0, 4, 0], [0, 0, 8], [0, 0, 0]]
    """
    for tensor, pair in layouts.items():
        check_pair(tensor, *pair)
    check_sizes(layouts, itemsizes)
    tables = RankTables(layout for pair in layouts.values() for layout in pair)
    count = _Count(tables, hosts)
    for reduced, weights in gather_reduced_pairs(layouts, itemsizes).items():
        count.add(reduced, weights)
    return count.traffic(layouts)


class _Count:
    """The traffic of reduced pairs, summed up."""

    def __init__(self, tables: RankTables, hosts: Hosts | None) -> None:
        self._tables = tables
        self._builder = ReplicaAssignmentBuilder(None if hosts is None else _host_numbers(tables.ranks, hosts))
        self._pairs = PairBytes(tables.ranks.size)
        self._held = [tables.zeros() for _ in range(4)]
        self._moved: dict[str, int] = {}
        self._assigned: list[tuple[ReplicaAssignment, Mapping[str, int]]] = []

    def add(self, reduced: ReducedLayoutPair, weights: Mapping[str, int]) -> None:
        """Enter the tensors of a reduced pair, with the bytes of an element of it."""
        holding, arrivals = self._tables.follow(reduced.source, reduced.target)
        total = sum(weights.values())
        for held, size in zip(self._held, holding, strict=True):
            held += size * total
        arriving = int(arrivals.size.sum())
        self._moved.update((tensor, arriving * weight) for tensor, weight in weights.items())
        holders = self._tables.holders(reduced.source)
        if not arriving:
            return
        if holders.places.shape[1] == 1:
            self._pairs.add(holders.places[arrivals.part, 0], arrivals.place, arrivals.size * total)
        else:
            self._assigned.extend(
                (assignment, weights) for assignment in self._builder.assignments(reduced, arrivals, holders)
            )

    def _assign(self) -> None:
        """Enter what replicas give, the tensors with the largest blocks first, as the rule has it for each group."""
        turns = np.zeros(self._builder.group_count, np.int64)
        order = sorted(
            (-weight * assignment.largest, tensor, number)
            for number, (assignment, weights) in enumerate(self._assigned)
            for tensor, weight in weights.items()
        )
        # After this number of turns the givers repeat: then they give the same takers the bytes of both tensors.
        alike: dict[tuple[int, bytes], int] = {}
        for _, tensor, number in order:
            assignment, weights = self._assigned[number]
            key = (number, (turns[assignment.group] % assignment.period).tobytes())
            alike[key] = alike.get(key, 0) + weights[tensor]
            turns[assignment.group] += assignment.count
        tensors: list[list[tuple[Integers, int]]] = [[] for _ in self._assigned]
        for (number, first_turns), weight in alike.items():
            tensors[number].append((np.frombuffer(first_turns, np.int64), weight))
        for (assignment, _), of_assignment in zip(self._assigned, tensors, strict=True):
            for givers, takers, sizes in assignment.transfers(of_assignment):
                self._pairs.add(givers, takers, sizes)

    def traffic(self, layouts: Mapping[str, LayoutPair]) -> Traffic:
        """Return the sum of all that has been entered."""
        self._assign()
        givers, takers, sizes = self._pairs.sums()
        ranks = self._tables.ranks
        moved = {tensor: self._moved.get(tensor, 0) for tensor in layouts}
        before, after, kept, copied = self._held
        return Traffic(ranks, before, after, kept, copied, ranks[givers], ranks[takers], sizes, moved)


def _host_numbers(ranks: Integers, hosts: Hosts) -> Integers:
    return np.array([hosts.host(rank) for rank in ranks.tolist()], np.int64)
