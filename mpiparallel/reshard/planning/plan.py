"""The plan of a reshard: which box of which tensor goes from which rank to which, as data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from operator import attrgetter

from mpiparallel.backend.collector_pause import collector_paused
from mpiparallel.cluster.hosts import Hosts
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.frame import Frame
from mpiparallel.reshard.planning.layout_digest import LayoutPair as LayoutPair
from mpiparallel.reshard.planning.layout_digest import plan_digest as plan_digest
from mpiparallel.reshard.planning.overlaps import RankOverlaps
from mpiparallel.reshard.planning.replica_rule import ReplicaRule
from mpiparallel.reshard.planning.tensor_move import FramePair, TensorMove


@dataclass(frozen=True, slots=True)
class Transfer:
    """One box of one tensor that ``target`` gets from ``source``; a copy when both are the same rank.

    ``box`` counts elements of the global tensor, lies in the box of ``source`` before and of ``target`` after, and is
    never empty.
    """

    tensor: str
    source: int
    target: int
    box: Box


@dataclass(frozen=True)
class ReshardPlan:
    """What ``rank`` sends, receives, copies and keeps when every tensor goes from its source to its target layout.

    ``sends`` and ``receives`` are sorted by peer, tensor and box, so two ranks list what passes between them in one
    order and need no headers. ``kept`` names the tensors whose box on this rank stays as it is.
    """

    rank: int
    sends: tuple[Transfer, ...]
    receives: tuple[Transfer, ...]
    copies: tuple[Transfer, ...]
    kept: tuple[str, ...]

    @cached_property
    def piece_sizes(self) -> tuple[list[list[tuple[str, int]]], list[list[tuple[str, int]]]]:
        """The tensor and the elements of each piece that goes to each peer, and that comes from each."""
        return _sizes(self.sends, "target"), _sizes(self.receives, "source")


def _sizes(transfers: Iterable[Transfer], peer: str) -> list[list[tuple[str, int]]]:
    streams = (group for _, group in groupby(transfers, key=attrgetter(peer)))
    return [[(transfer.tensor, transfer.box.size) for transfer in stream] for stream in streams]


def plan_reshard(
    layouts: Mapping[str, LayoutPair],
    rank: int,
    itemsizes: Mapping[str, int] | None = None,
    hosts: Hosts | None = None,
    absent: frozenset[int] = frozenset(),
) -> ReshardPlan:
    """Return the part of ``rank`` in moving each tensor from its source to its target layout.

    The two layouts of a tensor may live on different ranks. A rank outside the source holds nothing before, a rank
    outside the target nothing after. Each rank plans alone, from the same arguments, and the plans agree: every element
    a rank holds after reaches it exactly once. The parts of a target may overlap: an element then reaches every rank
    whose part has it.

    A rank that holds an element already takes its own. Else a holder on its host gives it, if ``hosts`` are given and
    there is one. Else all holders take turns, balanced over all tensors by their bytes. ``itemsizes`` has the bytes of
    an element of each tensor; without it all elements count alike.

    ``absent`` ranks, such as those that have died, give nothing; others that hold the same give it.

    The work grows with the overlaps of this rank's boxes, not with the number of ranks. There is one exception: a
    source with replicas, where strides do not show that all ranks that want a part hold it. Then the plan looks at each
    of these ranks, once for all tensors that are cut alike.

    Raises ReshardError for a tensor whose global shapes differ, of which a layout is partial, or whose source has parts
    that overlap. It does so too where the itemsize is missing, or all holders of a part are absent. Raises
    RankTableError when the host of a rank is not known.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> halves = Layout((6,), DeviceMatrix((2,)), ((0,),))
    >>> thirds = Layout((6,), DeviceMatrix((3,)), ((0,),))
    >>> plan = plan_reshard({"weight": (halves, thirds)}, rank=1)
    >>> [(transfer.target, transfer.box.start) for transfer in plan.sends]
    [(2, (4,))]
    >>> [(transfer.source, transfer.box.start) for transfer in plan.receives]
    [(0, (2,))]
    """
    with collector_paused():
        return _plan(layouts, rank, itemsizes, hosts, absent)


def _plan(
    layouts: Mapping[str, LayoutPair],
    rank: int,
    itemsizes: Mapping[str, int] | None,
    hosts: Hosts | None,
    absent: frozenset[int],
) -> ReshardPlan:
    moves = _moves(layouts, absent)
    if itemsizes is not None and not moves.keys() <= itemsizes.keys():
        missing = min(moves.keys() - itemsizes.keys())
        raise ReshardError(f"{missing}: itemsizes has no entry for it; give the bytes of an element of each tensor")
    planner = _RankPlanner(rank, ReplicaRule(moves, itemsizes, hosts))
    for tensor, move in moves.items():
        planner.add(tensor, move)
    return planner.plan()


_SET_TENSOR, _SET_SOURCE, _SET_TARGET, _SET_BOX = (
    Transfer.__dict__[field].__set__ for field in ("tensor", "source", "target", "box")
)


def _transfer(tensor: str, source: int, target: int, box: Box) -> Transfer:
    """Return a transfer four times as fast as its class does, which sets frozen fields by their names."""
    made = object.__new__(Transfer)
    _SET_TENSOR(made, tensor)
    _SET_SOURCE(made, source)
    _SET_TARGET(made, target)
    _SET_BOX(made, box)
    return made


class _RankPlanner:
    """What one rank does, gathered tensor by tensor in a list for each peer, so that nothing need be sorted."""

    def __init__(self, rank: int, rule: ReplicaRule) -> None:
        self._rank = rank
        self._rule = rule
        self._overlaps: dict[TensorMove, RankOverlaps] = {}
        self._sends: dict[int, list[Transfer]] = defaultdict(list)
        self._receives: dict[int, list[Transfer]] = defaultdict(list)
        self._copies: list[Transfer] = []
        self._kept: list[str] = []

    def add(self, tensor: str, move: TensorMove) -> None:
        """Enter what this rank does with ``tensor``; tensors come in ascending order, each box in one piece."""
        rank, overlaps = self._rank, self._overlaps.get(move)
        if overlaps is None:
            overlaps = self._overlaps[move] = RankOverlaps(move, rank)
        if overlaps.kept:
            self._kept.append(tensor)
        if overlaps.copy is not None:
            self._copies.append(_transfer(tensor, rank, rank, overlaps.copy))
        for giver, box in overlaps.arrivals:
            self._receives[giver].append(_transfer(tensor, giver, rank, box))
        for taker, box in overlaps.departures:
            self._sends[taker].append(_transfer(tensor, rank, taker, box))
        for parts, box in overlaps.lacking:
            giver = self._rule.giver(tensor, move.pair.source, parts, rank)
            self._receives[giver].append(_transfer(tensor, giver, rank, box))
        if overlaps.shared is not None:
            for taker, parts in self._rule.takers(tensor, move.pair.source, overlaps.shared, rank):
                self._sends[taker].append(_transfer(tensor, rank, taker, overlaps.box_for(parts)))

    def plan(self) -> ReshardPlan:
        """Return the plan of what has been added."""
        sends, receives = (
            tuple(chain.from_iterable(peers[peer] for peer in sorted(peers))) for peers in (self._sends, self._receives)
        )
        return ReshardPlan(self._rank, sends, receives, tuple(self._copies), tuple(self._kept))


def _moves(layouts: Mapping[str, LayoutPair], absent: frozenset[int]) -> dict[str, TensorMove]:
    """Return what moves each tensor, by name, ascending; tensors that are alike share it."""
    frames: dict[Hashable, Frame] = {}
    pairs: dict[tuple[Frame, Frame], FramePair] = {}
    moves: dict[tuple[FramePair, tuple[int, ...]], TensorMove] = {}
    found = {}
    for tensor in sorted(layouts):
        source, target = layouts[tensor]
        check_pair(tensor, source, target)
        ends = []
        for layout in (source, target):
            key = (layout.devices, layout.tensor_map, layout.optimizer_axes, layout.bounds)
            frame = frames.get(key)
            if frame is None:
                frame = frames[key] = Frame(layout, absent)
            ends.append(frame)
        before, after = ends
        pair = pairs.get((before, after))
        if pair is None:
            pair = pairs[before, after] = FramePair(before, after)
        move = moves.get((pair, source.global_shape))
        if move is None:
            move = moves[pair, source.global_shape] = TensorMove(pair, source.global_shape)
        found[tensor] = move
    return found


def check_pair(tensor: str, source: Layout, target: Layout) -> None:
    if source.global_shape != target.global_shape:
        raise ReshardError(
            f"{tensor}: the source layout is of shape {source.global_shape}, the target layout of "
            f"{target.global_shape}; a reshard moves elements, it does not reshape"
        )
    for side, layout in (("source", source), ("target", target)):
        if layout.partial:
            raise ReshardError(
                f"{tensor}: its {side} layout {layout} holds terms, not elements; reduce it before it is moved"
            )
    if not source.tiles:
        raise ReshardError(
            f"{tensor}: its source layout {source} has parts that overlap; move it from where it is whole"
        )
