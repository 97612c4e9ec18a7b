"""Which replica of a part gives it to whom: pure arithmetic that giver and taker invert alike.

A rank that holds a part keeps its own. Else a rank on its host gives it, where one holds it: the takers of a host take
turns over its holders. Else all holders take turns over those takers. The turns of a group of holders go on from
tensor to tensor, the largest first. So the busiest holder gives at most one block more than its share.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import gcd
from operator import itemgetter
from typing import Final, NamedTuple

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.reshard.planning.frame import Frame, Parts
from mpiparallel.reshard.planning.tensor_move import Takers, TensorMove

STARTS: Final = 64
"""From how many places the rounds start: a taker has at most this number of givers for each group of tensors."""


class _Share(NamedTuple):
    """What a group of holders of one tensor gives, from which turn on."""

    givers: Sequence[int]
    takers: Takers
    first_turn: int

    def giver(self, taker: int) -> int:
        """Return who gives to ``taker``."""
        return self.givers[_giver_at(self.first_turn + self.takers.turns[taker], len(self.givers))]

    def taken_from(self, giver: int) -> Iterator[tuple[int, Parts]]:
        """Yield what falls to the giver of this number, found by its turn in each round, not by a walk over takers."""
        ranks, size = self.takers.ranks, len(self.givers)
        first, stop = self.first_turn, self.first_turn + len(ranks)
        for round_index in range(first // size, (stop - 1) // size + 1):
            turn = _turn_of(giver, round_index, size)
            if first <= turn < stop:
                yield ranks[turn - first]


class ReplicaRule:
    """Who gives what to whom, in moving these tensors; ``itemsizes`` weighs their elements.

    It is asked about sources with replicas only: without, there is nothing to choose.
    """

    def __init__(
        self, moves: Mapping[str, TensorMove], itemsizes: Mapping[str, int] | None, hosts: Hosts | None
    ) -> None:
        self._moves = moves
        self._itemsizes = itemsizes
        self._hosts = hosts
        self._deals_of_group: dict[Hashable, dict[str, _Share]] = {}
        self._deals_of_parts: dict[tuple[Frame, Parts, int | None], dict[str, _Share]] = {}
        self._near: dict[tuple[Frame, Parts, int], tuple[int, ...]] = {}

    def giver(self, tensor: str, frame: Frame, parts: Parts, taker: int) -> int:
        """Return the rank that gives source ``parts`` of ``tensor`` to ``taker``, which does not hold it."""
        host = None if self._hosts is None else self._hosts.host(taker)
        if host is not None and not self._holders_on(frame, parts, host):
            host = None
        return self._shares(frame, parts, host)[tensor].giver(taker)

    def takers(self, tensor: str, frame: Frame, parts: Parts, giver: int) -> Iterator[tuple[int, Parts]]:
        """Yield the ranks to which ``giver`` gives its source ``parts`` of ``tensor``, each with its target parts."""
        if self._hosts is not None:
            host = self._hosts.host(giver)
            near = self._shares(frame, parts, host).get(tensor)
            if near is not None:
                yield from near.taken_from(near.givers.index(giver))
        share = self._shares(frame, parts, None).get(tensor)
        if share is not None:
            yield from share.taken_from(frame.replica(giver))

    def _shares(self, frame: Frame, parts: Parts, host: int | None) -> dict[str, _Share]:
        """Return what the holders of ``parts`` on ``host`` give, or all of its holders where that is None."""
        found = self._deals_of_parts.get((frame, parts, host))
        if found is None:
            group = self._group(frame, parts, host)
            if (group, host) not in self._deals_of_group:
                givers = frame.holders(parts) if host is None else self._holders_on(frame, parts, host)
                self._deals_of_group[group, host] = self._deal_out(group, givers, host)
            found = self._deals_of_parts[frame, parts, host] = self._deals_of_group[group, host]
        return found

    def _deal_out(self, group: Hashable, givers: Sequence[int], host: int | None) -> dict[str, _Share]:
        """Return the share of each tensor of which the group holds a part that others lack, the largest first."""
        held: dict[Frame, Parts] = {}
        for frame in {move.pair.source for move in self._moves.values()}:
            parts = frame.parts(givers[0])
            if parts is not None and frame.replica_count > 1 and self._group(frame, parts, host) == group:
                held[frame] = parts
        found = []
        # What moves tensors that are alike is one object.
        known: dict[TensorMove, tuple[Takers, int]] = {}
        for tensor, move in self._moves.items():
            wanted = held.get(move.pair.source)
            if wanted is None:
                continue
            if move not in known:
                known[move] = self._takers_of(move, wanted, host), move.largest_block(wanted)
            takers, largest = known[move]
            if takers.ranks:
                weight = 1 if self._itemsizes is None else self._itemsizes[tensor]
                found.append((-weight * largest, tensor, takers))
        shares, turn = {}, 0
        for _, tensor, takers in sorted(found, key=itemgetter(0, 1)):
            shares[tensor] = _Share(givers, takers, turn)
            turn += len(takers.ranks)
        return shares

    def _takers_of(self, move: TensorMove, parts: Parts, host: int | None) -> Takers:
        ranges = move.target_ranges(parts)
        if host is None or self._hosts is None:
            return move.pair.takers(parts, ranges, self._hosts)
        return move.pair.takers_on(parts, ranges, self._hosts.ranks_of(host), host)

    def _group(self, frame: Frame, parts: Parts, host: int | None) -> Hashable:
        """Return what is equal for equal groups of holders."""
        return frame.group_key(parts) if host is None else self._holders_on(frame, parts, host)

    def _holders_on(self, frame: Frame, parts: Parts, host: int) -> tuple[int, ...]:
        if self._hosts is None:
            return ()
        key = (frame, parts, host)
        if key not in self._near:
            self._near[key] = tuple(rank for rank in self._hosts.ranks_of(host) if frame.parts(rank) == parts)
        return self._near[key]


def _giver_at(turn: int, size: int) -> int:
    """Return which of ``size`` givers has ``turn``.

    Every round is a permutation of the givers. Its start moves on, so the large blocks of a pattern that repeats do not
    always fall to the same givers. It moves to few places only, so a taker has messages from few givers.
    """
    round_index, place = divmod(turn, size)
    return (place + _start(round_index, size)) % size


def _turn_of(giver: int, round_index: int, size: int) -> int:
    """Return the turn of ``giver`` in a round: the inverse of ``_giver_at``."""
    return round_index * size + (giver - _start(round_index, size)) % size


def _start(round_index: int, size: int) -> int:
    return round_index // 2 % STARTS * golden_step(size)


@lru_cache(maxsize=256)
def golden_step(size: int) -> int:
    """Return the step nearest to the golden section of ``size`` that visits all: it spreads any run of visits."""
    step = round(size * 0.381966)
    while gcd(step, size) > 1:
        step += 1
    return step
