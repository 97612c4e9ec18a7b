"""Which replica of a part gives it to whom: pure arithmetic that giver and taker invert alike.

A rank that holds a part keeps its own. Else a rank on its host gives it, where one holds it: the takers of a host take
turns over its holders. Else all holders take turns over those takers. The turns of a group of holders go on from
tensor to tensor, the largest first, like cards that are dealt, so the busiest of them gives at most one block more than
its share.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.reshard.frame import Frame, Parts
from mpiparallel.reshard.tensor_move import Takers, TensorMove


class _Deal(NamedTuple):
    """What is dealt out to one group of holders of one tensor."""

    givers: Sequence[int]
    takers: Takers
    first_turn: int


class ReplicaRule:
    """Who gives what to whom, in moving these tensors; ``itemsizes`` weighs their elements."""

    def __init__(
        self, moves: Mapping[str, TensorMove], itemsizes: Mapping[str, int] | None, hosts: Hosts | None
    ) -> None:
        self._moves = moves
        self._itemsizes = itemsizes
        self._hosts = hosts
        self._first_turns: dict[Hashable, dict[str, int]] = {}
        self._near: dict[tuple[Frame, Parts, int], tuple[int, ...]] = {}

    def giver(self, tensor: str, parts: Parts, taker: int) -> int:
        """Return the rank that gives source ``parts`` of ``tensor`` to ``taker``, which does not hold it."""
        frame = self._moves[tensor].pair.source
        if frame.replica_count == 1:
            return frame.first_holder(parts)
        host = None if self._hosts is None else self._hosts.host(taker)
        near = () if host is None else self._holders_on(frame, parts, host)
        deal = self._deal(tensor, parts, host if near else None)
        return deal.givers[_giver_at(deal.first_turn + deal.takers.turns[taker], len(deal.givers))]

    def takers(self, tensor: str, parts: Parts, giver: int) -> Iterator[tuple[int, Parts]]:
        """Yield the ranks to which ``giver`` gives its source ``parts`` of ``tensor``, each with its target parts."""
        frame = self._moves[tensor].pair.source
        if self._hosts is not None and frame.replica_count > 1:
            yield from _dealt(self._deal(tensor, parts, self._hosts.host(giver)), giver)
        yield from _dealt(self._deal(tensor, parts, None), giver)

    def _deal(self, tensor: str, parts: Parts, host: int | None) -> _Deal:
        """Return what is dealt among the holders on ``host``, or among all holders where it is None."""
        move = self._moves[tensor]
        takers = self._takers_of(move, parts, host)
        frame = move.pair.source
        givers = frame.holders(parts) if host is None else self._holders_on(frame, parts, host)
        if len(givers) == 1 or not takers.ranks:
            return _Deal(givers, takers, 0)
        key = frame.group_key(parts) if host is None else givers
        if (key, host) not in self._first_turns:
            self._first_turns[key, host] = self._turns(key, givers[0], host)
        return _Deal(givers, takers, self._first_turns[key, host][tensor])

    def _takers_of(self, move: TensorMove, parts: Parts, host: int | None) -> Takers:
        ranges = move.target_ranges(parts)
        if host is None:
            return move.pair.takers(parts, ranges, self._hosts)
        return move.pair.takers_on(parts, ranges, self._hosts.ranks_of(host) if self._hosts else (), host)

    def _turns(self, group: Hashable, member: int, host: int | None) -> dict[str, int]:
        """Return the first turn of each tensor that the group of holders of ``member`` deals out."""
        found: list[tuple[int, str, int]] = []
        for tensor, move in self._moves.items():
            frame = move.pair.source
            parts = frame.parts(member)
            if parts is None or frame.replica_count == 1:
                continue
            if group != (frame.group_key(parts) if host is None else self._holders_on(frame, parts, host)):
                continue
            count = len(self._takers_of(move, parts, host).ranks)
            if count:
                weight = 1 if self._itemsizes is None else self._itemsizes[tensor]
                found.append((-weight * move.largest_block(parts), tensor, count))
        turns, turn = {}, 0
        for _, tensor, count in sorted(found):
            turns[tensor] = turn
            turn += count
        return turns

    def _holders_on(self, frame: Frame, parts: Parts, host: int) -> tuple[int, ...]:
        if self._hosts is None:
            return ()
        key = (frame, parts, host)
        if key not in self._near:
            self._near[key] = tuple(rank for rank in self._hosts.ranks_of(host) if frame.parts(rank) == parts)
        return self._near[key]


def _dealt(deal: _Deal, giver: int) -> Iterator[tuple[int, Parts]]:
    """Yield what falls to ``giver``, found by its place in each round, not by a walk over the takers."""
    count, size = len(deal.takers.ranks), len(deal.givers)
    if size == 1:
        yield from deal.takers.ranks
        return
    if not count:
        return
    place = deal.givers.index(giver)
    for round_index in range(deal.first_turn // size, (deal.first_turn + count - 1) // size + 1):
        turn = _turn_of(place, round_index, size) - deal.first_turn
        if 0 <= turn < count:
            yield deal.takers.ranks[turn]


def _giver_at(turn: int, size: int) -> int:
    """Return which of ``size`` givers has ``turn``.

    Every round is a permutation of the givers: every other one runs backwards, and the start moves on, so a pattern of
    unequal blocks that comes again and again does not always fall to the same givers.
    """
    round_index, place = divmod(turn, size)
    return ((size - 1 - place if round_index % 2 else place) + _start(round_index, size)) % size


def _turn_of(giver: int, round_index: int, size: int) -> int:
    """Return the turn of ``giver`` in a round: the inverse of ``_giver_at``."""
    place = (giver - _start(round_index, size)) % size
    return round_index * size + (size - 1 - place if round_index % 2 else place)


def _start(round_index: int, size: int) -> int:
    return round_index // 2 * golden_step(size)


@lru_cache(maxsize=256)
def golden_step(size: int) -> int:
    """Return the step nearest to the golden section of ``size`` that visits all: it spreads any run of visits."""
    step = round(size * 0.381966)
    while gcd(step, size) > 1:
        step += 1
    return step
