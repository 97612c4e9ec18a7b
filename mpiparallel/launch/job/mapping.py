"""Which rank runs on which host and device, as ``--dry-run`` shows it."""

from __future__ import annotations

from typing import NamedTuple

from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.launch.job.host_selection import HostSelection

_HERE = "localhost"


class RankLocation(NamedTuple):
    """Where a rank runs: its host, and the number of its device there."""

    rank: int
    host: str
    device: int


def mapping(ranks: int, selection: HostSelection, table: RankTable | None) -> str:
    """Return a table of ``ranks`` ranks: each with its host and its device, by rank.

    The hosts of a SLURM allocation are not known before the job starts.

    >>> print(mapping(2, HostSelection((), 2, False), None))
    rank  host       device
    0     localhost  0
    1     localhost  1
    """
    rows = [RankLocation._fields, *(tuple(map(str, place)) for place in places(ranks, selection, table))]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def places(ranks: int, selection: HostSelection, table: RankTable | None) -> list[RankLocation]:
    """Return where each of ``ranks`` ranks runs, by rank."""
    found = []
    for rank, (host, local_rank) in sorted(_hosts(ranks, selection).items()):
        found.append(RankLocation(rank, host, table.device_of(rank).device_id if table else local_rank))
    return found


def _hosts(ranks: int, selection: HostSelection) -> dict[int, tuple[str, int]]:
    """Return the host of each rank, and its number among the ranks there."""
    order = selection.order.ranks if selection.order else range(ranks)
    name = "(of the allocation)" if selection.spans_hosts else _HERE
    slots = [(host.name, number) for host in selection.hosts for number in range(host.slots)] or [
        (name, process % selection.local_ranks) for process in range(ranks)
    ]
    return {order[process]: slots[process] for process in range(ranks)}
