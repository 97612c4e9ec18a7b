"""From a process that a shell has started to a rank that MPI knows."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.cluster.gathering.hand_started import HandStarted
from mpiparallel.communication.gathering.mpirun_starter import MpirunStarter
from mpiparallel.communication.gathering.origin import Origin
from mpiparallel.communication.gathering.tie import Tie
from mpiparallel.communication.gathering.waiting import Waiting
from mpiparallel.errors import LaunchError

# Settings of MPI that the process has itself are its own; what names its place in the job is not.
_SETTINGS = ("OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_")


def join_hand_started() -> Tie | None:
    """Let this process take its place in the job whose rank the environment says it is, if a shell has started it.

    It waits until all processes of the job are there. Afterwards the environment is that of a rank under mpirun.
    Returns what ties it to mpirun, None where a launcher has started it or it is a rank alone.

    Returns
    -------
    Tie or None
        What ties it to mpirun; None where a launcher has started it or it is a rank alone.

    Raises
    ------
    LaunchError
        Some process did not come in time, two claim to be one rank, or mpirun could not start the job.
    ConfigurationError, RankTableError
        The variables do not name one rank of a job that can be.

    Examples
    --------
    >>> join_hand_started() is None
    True
    """
    started = HandStarted.of(os.environ)
    if started is None:
        return None
    _check(started)
    origin = Origin.own()
    with Waiting(started, origin) as waiting:
        starter: MpirunStarter | None = None
        if started.rank == 0:
            waiting.for_all_here()
            starter = MpirunStarter(started, origin)
        try:
            connection, message = waiting.for_identity(starter)
        except LaunchError as error:
            waiting.refuse_all(str(error))
            raise
    take_identity(os.environ, message)
    os.environ.setdefault("RANK_SIZE", str(started.size))
    if started.table:
        os.environ.setdefault("DEVICE_ID", str(started.table.device_of(started.rank).device_id))
    if started.rank == 0:
        print(f"mpiparallel: {_told(started)}", file=sys.stderr, flush=True)
    return Tie(connection, started.rank, starter)


def take_identity(variables: MutableMapping[str, str], message: meeting_point.GatheringMessage) -> None:
    """Put into ``variables`` what a stand-in has handed over, with the numbers that its open files have here."""
    files = dict(zip(message.fields["named"], message.files, strict=True))
    for name, value in message.fields["variables"].items():
        if not (name.startswith(_SETTINGS) and name in variables):
            variables[name] = str(files.get(name, value))


def _check(started: HandStarted) -> None:
    if sys.platform != "linux":
        raise LaunchError(f"init: processes started one by one find each other on Linux only; use {started.command}")
    if "mpi4py.MPI" in sys.modules:
        raise LaunchError(
            "init: mpi4py.MPI was imported before, which has started MPI for this process alone; call init first, or "
            f"use {started.command}"
        )


def _told(started: HandStarted) -> str:
    if started.table_path is None or started.table is None:
        return f"the {started.size} processes started one by one are one job"
    names = {server.server_id for server in started.table.servers if server.is_local}
    taken = f'; its server_id "{sorted(names)[0]}" is taken for this host' if names else ""
    return f"the {started.size} processes of {Path(started.table_path).name} are one job{taken}"
