"""Who a rank is, and the names by which scripts ask for it."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.processor import read_core_type
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import LaunchError


def identity(ranks: int, order: RankOrder | None) -> tuple[Environment, int]:
    """Return who this rank of ``ranks`` is by ``order``, and the number that MPI's launcher calls it by.

    Raises LaunchError where MPI has started another number of ranks.
    """
    environment = Environment.read()
    if environment.size != ranks:
        raise LaunchError(
            f"this rank is one of {environment.size}, the job has {ranks}: mpirun and the MPI library of "
            "mpi4py do not belong together; install one MPI only"
        )
    if order:
        return in_order(environment, order), environment.rank
    return environment, environment.rank


def in_order(environment: Environment, order: RankOrder) -> Environment:
    """Return the ``environment`` of an MPI process as that of the rank which it is by ``order``.

    Raises LaunchError where the order is of another number of ranks.
    """
    if len(order.ranks) != environment.size:
        raise LaunchError(
            f"the rank order {order} has {len(order.ranks)} ranks, the job {environment.size}; start the job anew"
        )
    return replace(environment, rank=order.ranks[environment.rank])


def name_rank(variables: MutableMapping[str, str], environment: Environment, table: RankTable | None) -> None:
    """Set in ``variables`` what MindSpore's scripts read: ``RANK_ID``, ``RANK_SIZE`` and ``DEVICE_ID``.

    The device is that of the rank table, or the local rank. MPI's world is made in the order of ``RANK_ID``.
    ``OPENBLAS_CORETYPE`` is set for this host's processor, as the host that started the job may have another.
    """
    device_id = table.device_of(environment.rank).device_id if table else environment.local_rank
    variables.update(RANK_ID=str(environment.rank), RANK_SIZE=str(environment.size), DEVICE_ID=str(device_id))
    core_type = read_core_type(variables)
    if core_type:
        variables["OPENBLAS_CORETYPE"] = core_type
