"""The plan of a reshard: which box of which tensor goes from which rank to which, as data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout

LayoutPair = tuple[Layout, Layout]


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


def plan_reshard(layouts: Mapping[str, LayoutPair], rank: int) -> ReshardPlan:
    """Return the part of ``rank`` in moving each tensor from its source to its target layout.

    The two layouts of a tensor may live on different ranks: a rank outside the source holds nothing before, a rank
    outside the target nothing after. Each rank plans alone, from the same layouts, and the plans agree: every element
    a rank holds after reaches it exactly once. A rank that holds an element already takes its own; else the source
    replicas take turns. The work is that of the overlaps of this rank's boxes, whatever the number of ranks. The parts
    of a target may overlap: an element then reaches every rank whose part has it.

    Raises ReshardError when the global shapes of a tensor differ, one of its layouts is partial or the parts of its
    source overlap.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> halves = Layout((6,), DeviceMatrix((2,)), ((0,),))
    >>> thirds = Layout((6,), DeviceMatrix((3,)), ((0,),))
    >>> plan = plan_reshard({"weight": (halves, thirds)}, rank=1)
    >>> [(transfer.target, transfer.box.start) for transfer in plan.sends]
    [(2, (4,))]
    >>> [(transfer.source, transfer.box.start) for transfer in plan.receives]
    [(0, (2,))]
    """
    sends: list[Transfer] = []
    receives: list[Transfer] = []
    copies: list[Transfer] = []
    kept: list[str] = []
    for tensor, (source, target) in sorted(layouts.items()):
        _check_pair(tensor, source, target)
        held = rank in source.devices
        wanted = rank in target.devices
        if held and wanted and source.box(rank) == target.box(rank):
            kept.append(tensor)
        elif wanted:
            for transfer in _arrivals(tensor, source, target, rank):
                (copies if transfer.source == rank else receives).append(transfer)
        if held:
            sends.extend(_departures(tensor, source, target, rank))
    sends.sort(key=lambda transfer: (transfer.target, transfer.tensor, transfer.box.start))
    receives.sort(key=lambda transfer: (transfer.source, transfer.tensor, transfer.box.start))
    copies.sort(key=lambda transfer: (transfer.tensor, transfer.box.start))
    return ReshardPlan(rank, tuple(sends), tuple(receives), tuple(copies), tuple(kept))


def plan_digest(layouts: Mapping[str, LayoutPair]) -> bytes:
    """Return 32 bytes that are equal on two ranks when, and in practice only when, their layouts are equal."""
    fields = [
        (tensor, [_fields(layout) for layout in (source, target)])
        for tensor, (source, target) in sorted(layouts.items())
    ]
    return sha256(json.dumps(fields, default=int).encode()).digest()


def _fields(layout: Layout) -> tuple[object, ...]:
    devices = layout.devices
    cut = (layout.tensor_map, layout.optimizer_axes, layout.partial, layout.reduction, layout.bounds)
    return (layout.global_shape, devices.shape, devices.first_rank, *cut)


def _check_pair(tensor: str, source: Layout, target: Layout) -> None:
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
    if source.bounds:
        raise ReshardError(
            f"{tensor}: its source layout {source} has parts that overlap; move it from where it is whole"
        )


def _arrivals(tensor: str, source: Layout, target: Layout, rank: int) -> Iterator[Transfer]:
    """Yield what makes up the box of ``rank`` after: one transfer for each source part that overlaps it."""
    wanted = target.box(rank)
    if wanted.empty:
        return
    turn = _turn(target.parts(rank), target.replica(rank))
    own_parts = source.parts(rank) if rank in source.devices else None
    for parts in source.parts_over(wanted):
        box = source.box_of_parts(parts).intersection(wanted)
        if box is not None:
            giver = rank if parts == own_parts else source.rank_at(parts, turn % source.replica_count)
            yield Transfer(tensor, giver, rank, box)


def _departures(tensor: str, source: Layout, target: Layout, rank: int) -> Iterator[Transfer]:
    """Yield what ``rank`` gives away: the target replicas whose turn is its own, but for those that hold it already."""
    held = source.box(rank)
    if held.empty:
        return
    own_parts, own_replica = source.parts(rank), source.replica(rank)
    for parts in target.parts_over(held):
        box = target.box_of_parts(parts).intersection(held)
        if box is None:
            continue
        first = (own_replica - _turn(parts, 0)) % source.replica_count
        for replica in range(first, target.replica_count, source.replica_count):
            taker = target.rank_at(parts, replica)
            if not (taker in source.devices and source.parts(taker) == own_parts):
                yield Transfer(tensor, rank, taker, box)


def _turn(target_parts: tuple[int, ...], target_replica: int) -> int:
    """Return which source replica serves a target rank, modulo their number.

    The sum over the parts spreads the load where a replicated tensor becomes a cut one, along whichever dim.
    """
    return sum(target_parts) + target_replica
