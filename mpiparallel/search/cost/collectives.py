"""The seconds of a collective, by the algorithm that is quickest for its group and its bytes."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.search.machine.machine import Link, Machine


@dataclass(frozen=True)
class Group:
    """Ranks that communicate: ``hosts`` of them are on, ``on_host`` of each; ``beside`` groups share a host's card."""

    hosts: int
    on_host: int
    beside: int = 1

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self.hosts * self.on_host


def all_reduce_time(machine: Machine, group: Group, size: float) -> float:
    """Return the seconds until each rank has the sum of ``size`` bytes of all.

    Between hosts it is summed inside each, then over the hosts in as many parts as a host has members, then gathered
    inside. In each it is recursive doubling or reduce-scatter and gather, whichever is quicker.
    """
    if group.size < 2:
        return 0.0
    if group.hosts == 1:
        return _inside(machine, "reduce", group.on_host, size)
    inside = _inside(machine, "reduce_scatter", group.on_host, size) + _inside(machine, "gather", group.on_host, size)
    return inside + _summed(machine, _card(machine, group), group.hosts, size / group.on_host)


def gather_time(machine: Machine, group: Group, size: float) -> float:
    """Return the seconds until each rank has all ``size`` bytes, of which it had an equal part."""
    inside = _inside(machine, "gather", group.on_host, size)
    return _gathered(machine, _card(machine, group), group.hosts, size / group.on_host) + inside


def reduce_scatter_time(machine: Machine, group: Group, size: float) -> float:
    """Return the seconds until each rank has its part of the sum of ``size`` bytes of all."""
    inside = _inside(machine, "reduce_scatter", group.on_host, size)
    return inside + _scattered(machine, _card(machine, group), group.hosts, size / group.on_host)


def exchange_time(machine: Machine, group: Group, received: float) -> float:
    """Return the seconds until each rank has got ``received`` bytes, from all others alike."""
    others = group.size - 1
    if others < 1:
        return 0.0
    near = group.on_host - 1
    inside = _inside(machine, "exchange", group.on_host, received * near / others)
    link = _card(machine, group)
    return inside + (others - near) * link.latency + received * (others - near) / others / link.bandwidth


def _inside(machine: Machine, kind: str, ranks: int, size: float) -> float:
    """Return the seconds of a collective among ranks of one host: as measured, or else by its algorithm."""
    if ranks < 2:
        return 0.0
    measured = machine.collective_seconds(kind, ranks, size)
    return _BY_ALGORITHM[kind](machine, machine.inside, ranks, size) if measured is None else measured


def _card(machine: Machine, group: Group) -> Link:
    """Return the link between hosts that is left for one member, with all groups on a host at it at a time."""
    return Link(machine.between.latency, machine.between.bandwidth / (group.beside * group.on_host))


def _summed(machine: Machine, link: Link, ranks: int, size: float) -> float:
    rounds = ceil(log2(ranks))
    whole = rounds * (link.latency + size / link.bandwidth + _adding(machine, size))
    return min(whole, _scattered(machine, link, ranks, size) + _gathered(machine, link, ranks, size))


def _scattered(machine: Machine, link: Link, ranks: int, size: float) -> float:
    return _gathered(machine, link, ranks, size) + _adding(machine, (ranks - 1) / ranks * size)


def _adding(machine: Machine, size: float) -> float:
    return size / machine.reduction_rate * machine.turns


def _gathered(machine: Machine, link: Link, ranks: int, size: float) -> float:
    return ceil(log2(ranks)) * link.latency + (ranks - 1) / ranks * size / link.bandwidth


def _exchanged(machine: Machine, link: Link, ranks: int, received: float) -> float:
    return (ranks - 1) * link.latency + received / link.bandwidth


_BY_ALGORITHM: Final[dict[str, Callable[[Machine, Link, int, float], float]]] = {
    "reduce": _summed,
    "reduce_scatter": _scattered,
    "gather": _gathered,
    "exchange": _exchanged,
}
