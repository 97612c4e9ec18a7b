"""Where the ranks of a job run: the hosts, from a hostfile, a rank table, a SLURM allocation, or this machine alone."""

from __future__ import annotations

from collections.abc import Mapping

from mpiparallel.cluster.hostfile import Host, Hostfile
from mpiparallel.cluster.node_list import expand_tasks
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import RankTable, Server
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import RankTableError


@dataclass(frozen=True)
class HostSelection:
    """The hosts to name to mpirun (none: let it choose), the most ranks on one host, and whether there are others.

    ``order`` says which rank of the job each MPI process is; None where their numbers are the same.
    """

    hosts: tuple[Host, ...]
    local_ranks: int
    spans_hosts: bool
    order: RankOrder | None = None


def place(
    ranks: int, table: RankTable | None, hostfile: Hostfile | None, variables: Mapping[str, str]
) -> HostSelection:
    """Return where ``ranks`` ranks run.

    If a rank table names other hosts, its servers are the hosts, each with as many ranks as it has devices. A hostfile
    beside it may list them under other names, in the order of the table's ranks, and must have slots for them. A
    hostfile alone, or beside a table of this machine, says the hosts. Else SLURM's ``variables`` may tell of an
    allocation. Else all ranks run on this machine.

    Raises
    ------
    RankTableError
        The hostfile has too few slots, or its hosts do not hold as many ranks as the servers of the table.
    """
    if hostfile and hostfile.slots < ranks:
        raise RankTableError(f"the hostfile has {hostfile.slots} slots for {ranks} ranks; raise the slots of its hosts")
    if table and not table.is_local:
        return _on_servers(table, hostfile)
    if hostfile:
        return _on_hosts(hostfile.hosts, ranks)
    count = _node_count(variables)
    return HostSelection((), -(-ranks // count), count > 1)


def allocated_ranks(variables: Mapping[str, str]) -> int | None:
    """Return how many tasks SLURM gave the allocation that ``variables`` tell of, None outside of one.

    Raises RankTableError where the variables cannot be read.

    >>> allocated_ranks({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3", "SLURM_TASKS_PER_NODE": "2(x2),1"})
    5
    """
    if "SLURM_JOB_ID" not in variables:
        return None
    tasks = variables.get("SLURM_NTASKS", "")
    if tasks.isascii() and tasks.isdigit():
        return int(tasks)
    # Not set where only --nodes was given.
    return sum(expand_tasks(variables.get("SLURM_TASKS_PER_NODE", ""), _node_count(variables)))


def _node_count(variables: Mapping[str, str]) -> int:
    nodes = variables.get("SLURM_JOB_NUM_NODES", variables.get("SLURM_NNODES", "1"))
    return int(nodes) if nodes.isascii() and nodes.isdigit() and int(nodes) > 0 else 1


def _on_hosts(hosts: tuple[Host, ...], ranks: int, order: RankOrder | None = None) -> HostSelection:
    local_ranks = min(ranks, max(host.slots for host in hosts))
    return HostSelection(hosts, local_ranks, any(not host.is_local for host in hosts), order)


def _on_servers(table: RankTable, hostfile: Hostfile | None) -> HostSelection:
    servers = sorted(table.servers, key=lambda server: min(_ranks(server)))
    names = _names(table.rank_count, servers, hostfile) if hostfile else [server.server_id for server in servers]
    hosts = tuple(Host(name, len(server.devices)) for name, server in zip(names, servers, strict=True))
    order = RankOrder.of_hosts(map(_ranks, servers))
    return _on_hosts(hosts, table.rank_count, None if order.is_identity else order)


def _names(ranks: int, servers: list[Server], hostfile: Hostfile) -> list[str]:
    """Return what the hostfile calls each of the ``servers``: by its id, or else the hosts are in their order."""
    slots = {host.name: host.slots for host in hostfile.hosts}
    if all(slots.get(server.server_id, 0) >= len(server.devices) for server in servers):
        return [server.server_id for server in servers]
    filled: list[int] = []
    for host in hostfile.hosts:
        filled.append(min(host.slots, ranks - sum(filled)))
    given = [count for count in filled if count]
    wanted = [len(server.devices) for server in servers]
    if given != wanted:
        raise RankTableError(
            f"the hosts of the hostfile would run {given} ranks, the servers of the rank table have {wanted} devices; "
            "list the hosts in the table's order, or under its server_id, each with as many slots as its server has "
            "devices"
        )
    return [host.name for host in hostfile.hosts[: len(given)]]


def _ranks(server: Server) -> list[int]:
    return [device.rank_id for device in server.devices]
