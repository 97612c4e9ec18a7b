"""The communication that the planner has put into a network: what moves, why, among whom, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mpiparallel.compile.localise import GRADIENT_OF
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Node, Value
from mpiparallel.parallel.border import Border, Send
from mpiparallel.search.cost.timed_nodes import TimedNode
from mpiparallel.search.machine.machine import Link, Machine

_NAMES: Final = {
    "reduce": "AllReduce",
    "reduce_scatter": "ReduceScatter",
    "gather": "AllGather",
    "exchange": "AllToAll",
}
_MOST_TOLD: Final = 8


@dataclass(frozen=True)
class ToldGroup:
    """Ranks that communicate, as a reader is told them, and on how many hosts they are."""

    size: int
    hosts: int
    ranks: str

    @classmethod
    def of(cls, ranks: Sequence[int], machine: Machine) -> ToldGroup:
        """Return the group of these ranks on a machine.

        >>> ToldGroup.of([0, 8, 16], Machine(ranks_per_host=8))
        ToldGroup(size=3, hosts=3, ranks='0, 8, 16')
        """
        return cls(len(ranks), len({rank // machine.ranks_per_host for rank in ranks}), ranks_text(ranks))


@dataclass(frozen=True)
class Move:
    """One collective or message of the first rank: ``what`` moves, for which operator, in which ``phase`` of a step.

    ``byte_count`` is the part that a rank holds: before it is summed, after it is gathered or exchanged.
    """

    operator: str
    what: str
    phase: str
    kind: str
    group: ToldGroup
    byte_count: int
    seconds: float


class Owners:
    """To which operator of the network each node and value of its graph belongs, by their names."""

    def __init__(self, sharded: ShardedGraph) -> None:
        self._nodes = {node.name: node for node in sharded.graph.nodes}
        self._users: dict[str, str] = {}
        for node in sharded.graph.nodes:
            for value in node.inputs:
                if node.is_forward and value.node is None:
                    self._users.setdefault(value.name, node.name)

    def of_node(self, node: Node) -> str:
        """Return the operator that a local node computes, or whose gradient it computes."""
        whole = self._nodes.get(node.name)
        return node.name if whole is None else (whole.notes.origin or _like(whole) or whole).name

    def knows(self, name: str) -> bool:
        """Return whether a node of the whole graph has this name; what is moved has names of its own."""
        return name in self._nodes

    def is_forward(self, name: str) -> bool:
        """Return whether the node of this name computes something of the network itself."""
        node = self._nodes.get(name)
        return node is not None and node.is_forward

    def of_value(self, name: str) -> tuple[str, str, str]:
        """Return the operator of a value that moves, what it is, and in which phase of a step it moves."""
        if name.startswith(GRADIENT_OF):
            return self._users.get(name.removeprefix(GRADIENT_OF), "optimizer"), name, "gradients"
        maker = self._nodes.get(name.rpartition(":")[0])
        if maker is None:
            return self._users.get(name, "optimizer"), name, "weights and inputs"
        whole = (maker.notes.origin or _like(maker) or maker).name
        return whole, name, "forward" if maker.is_forward else "update" if whole == maker.name else "backward"


def _like(node: Node) -> Node | None:
    """Return the node whose output's gradient a sum of gradients is."""
    like: Value | None = node.notes.like
    return None if like is None else like.node


def moves_of(timed: Sequence[TimedNode], owners: Owners, machine: Machine, rank: int) -> Iterator[Move]:
    """Yield what the first rank of a stage, ``rank``, moves in a step, in order."""
    groups: dict[tuple[int, ...], ToldGroup] = {}
    for one in timed:
        if one.step is not None and one.step.kind != "slice":
            ranks = one.step.ranks(rank)
            group = groups.get(ranks)
            if group is None:
                group = groups[ranks] = ToldGroup.of(ranks, machine)
            operator, what, phase = owners.of_value(one.node.operator.scope.rpartition("/")[0])
            yield Move(operator, what, phase, _NAMES[one.step.kind], group, one.byte_count, one.seconds)
        elif isinstance(one.node.operator, Send):
            yield _message(one, owners, machine)


def _message(one: TimedNode, owners: Owners, machine: Machine) -> Move:
    """Return the message of a value to the next stage."""
    (value,) = one.node.inputs
    border: Border = one.node.operator.border  # type: ignore[attr-defined]
    ends = (border.source.devices.first_rank, border.target.devices.first_rank)
    operator, _, _ = owners.of_value(value.name)
    size = border.target.largest_size * value.spec.dtype.itemsize
    return Move(
        operator,
        one.node.name,
        "stages",
        "Send",
        ToldGroup.of(ends, machine),
        size,
        message_seconds(machine, border, size),
    )


def message_seconds(machine: Machine, border: Border, size: int) -> float:
    """Return the seconds that a message of ``size`` bytes takes from one stage to another."""
    hosts = {layout.devices.first_rank // machine.ranks_per_host for layout in (border.source, border.target)}
    link: Link = machine.inside if len(hosts) == 1 else machine.between
    return link.latency + size / link.bandwidth


@dataclass(frozen=True)
class Collectives:
    """All moves of one kind in one group: how many, with how many bytes and seconds in a step."""

    kind: str
    group: ToldGroup
    phases: Mapping[str, int]
    count: int
    byte_count: int
    seconds: float


def collectives_of(moves: Sequence[Move]) -> tuple[Collectives, ...]:
    """Return the moves by kind and group, the longest first."""
    found: dict[tuple[str, ToldGroup], list[Move]] = {}
    for move in moves:
        found.setdefault((move.kind, move.group), []).append(move)
    rows = [
        Collectives(
            kind,
            group,
            {phase: sum(one.phase == phase for one in some) for phase in dict.fromkeys(one.phase for one in some)},
            len(some),
            sum(one.byte_count for one in some),
            sum(one.seconds for one in some),
        )
        for (kind, group), some in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ranks as a reader is told them: all that count up, or a few.

    >>> ranks_text(range(4, 8)), ranks_text([0, 2]), ranks_text(range(0, 4096, 8))
    ('4 to 7', '0, 2', '0, 8, 16, ... 4088')
    """
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"{ranks[0]} to {ranks[-1]}"
    if len(ranks) <= _MOST_TOLD:
        return ", ".join(map(str, ranks))
    return f"{', '.join(map(str, ranks[:3]))}, ... {ranks[-1]}"
