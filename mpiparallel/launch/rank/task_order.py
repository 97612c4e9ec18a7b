"""Which rank of a rank table each task of srun is, from the nodes that SLURM names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.node_list import expand_nodes, expand_tasks
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import RankTable, Server
from mpiparallel.errors import LaunchError


def task_order(table: RankTable, variables: Mapping[str, str], environment: Environment) -> RankOrder:
    """Return the rank of each task of a step whose ``variables`` these are, one of them that of ``environment``.

    A node is the server of its name; where not every node is one, nodes are the servers in the order of their ranks.

    Raises
    ------
    LaunchError
        A node has not as many tasks as its server has devices, or the tasks are not numbered node by node.
    """
    nodes = expand_nodes(variables.get("SLURM_STEP_NODELIST", ""))
    counts = expand_tasks(variables.get("SLURM_STEP_TASKS_PER_NODE", ""), len(nodes))
    first = [0, *accumulate(counts)][int(variables.get("SLURM_NODEID", "0"))]
    if environment.rank != first + environment.local_rank:
        raise LaunchError(
            f"task {environment.rank} is number {environment.local_rank} of its node, so the tasks are not numbered "
            "node by node; with a rank table, start them by srun --distribution=block"
        )
    servers = _servers(table, nodes)
    for node, count, server in zip(nodes, counts, servers, strict=True):
        if count != len(server.devices):
            raise LaunchError(
                f"node {node} has {count} tasks, its server {server.server_id} of the rank table "
                f"{len(server.devices)} devices; give srun --ntasks-per-node and the nodes of the table"
            )
    return RankOrder.of_hosts([device.rank_id for device in server.devices] for server in servers)


def _servers(table: RankTable, nodes: Sequence[str]) -> list[Server]:
    if len(nodes) != len(table.servers):
        raise LaunchError(
            f"the step has {len(nodes)} nodes, the rank table {len(table.servers)} servers; give srun as many --nodes"
        )
    named = {server.server_id: server for server in table.servers}
    if set(nodes) == set(named):
        return [named[node] for node in nodes]
    return sorted(table.servers, key=lambda server: min(device.rank_id for device in server.devices))
