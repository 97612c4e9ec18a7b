"""Where the ranks of a job run: the hosts, from a hostfile, a rank table, a SLURM allocation, or this machine alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from mpiparallel.cluster.hostfile import Host, Hostfile
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import RankTableError


@dataclass(frozen=True, slots=True)
class Placement:
    """The hosts to name to mpirun (none: let it choose), the most ranks on one host, and whether there are others."""

    hosts: tuple[Host, ...]
    local_ranks: int
    spans_hosts: bool


def place(ranks: int, table: RankTable | None, hostfile: Hostfile | None, variables: Mapping[str, str]) -> Placement:
    """Return where ``ranks`` ranks run.

    A hostfile is followed; without one, the servers of a rank table that names other hosts; then the allocation that
    SLURM's ``variables`` tell of; else this machine.

    Raises
    ------
    RankTableError
        The hostfile has too few slots, or its hosts do not hold as many ranks as the servers of the table.
    """
    hosts = hostfile.hosts if hostfile else _servers(table)
    if hostfile and hostfile.slots < ranks:
        raise RankTableError(f"the hostfile has {hostfile.slots} slots for {ranks} ranks; raise the slots of its hosts")
    if hosts and table and not table.is_local:
        _compare(ranks, hosts, _servers(table))
    if hosts:
        return Placement(hosts, min(ranks, max(host.slots for host in hosts)), any(not host.is_local for host in hosts))
    nodes = variables.get("SLURM_JOB_NUM_NODES", variables.get("SLURM_NNODES", "1"))
    count = int(nodes) if nodes.isascii() and nodes.isdigit() and int(nodes) > 0 else 1
    return Placement((), -(-ranks // count), count > 1)


def _servers(table: RankTable | None) -> tuple[Host, ...]:
    if table is None or table.is_local:
        return ()
    names = [table.server_of(rank).server_id for rank in range(table.rank_count)]
    hosts = tuple(Host(name, len(list(group))) for name, group in groupby(names))
    if len({host.name for host in hosts}) < len(hosts):
        raise RankTableError(
            "the ranks of a server are not consecutive in the rank table, so mpirun cannot place them by host; "
            "number the devices of one server after the other"
        )
    return hosts


def _compare(ranks: int, hosts: tuple[Host, ...], servers: tuple[Host, ...]) -> None:
    filled: list[int] = []
    for host in hosts:
        filled.append(min(host.slots, ranks - sum(filled)))
    given = [count for count in filled if count]
    wanted = [server.slots for server in servers]
    if given != wanted:
        raise RankTableError(
            f"the hosts of the hostfile would run {given} ranks, the servers of the rank table have {wanted} devices; "
            "list the hosts in the table's order, each with as many slots as its server has devices"
        )
