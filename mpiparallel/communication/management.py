"""Start and end of the world of ranks, under MindSpore's names; what it has of groups is in ``named_groups``."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Final

from mpiparallel.backend.blas_threads import limit_blas_threads
from mpiparallel.cluster.environment import is_launched
from mpiparallel.cluster.preemption_signal import heed_preemption
from mpiparallel.communication import abort_hook, world
from mpiparallel.communication.failed_tests import end_after_failed_tests
from mpiparallel.communication.named_groups import GlobalComm as GlobalComm
from mpiparallel.communication.named_groups import create_group as create_group
from mpiparallel.communication.named_groups import destroy_group as destroy_group
from mpiparallel.communication.named_groups import get_group_rank_from_world_rank as get_group_rank_from_world_rank
from mpiparallel.communication.named_groups import get_group_size as get_group_size
from mpiparallel.communication.named_groups import get_local_rank as get_local_rank
from mpiparallel.communication.named_groups import get_local_rank_size as get_local_rank_size
from mpiparallel.communication.named_groups import get_rank as get_rank
from mpiparallel.communication.named_groups import get_world_rank_from_group_rank as get_world_rank_from_group_rank
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.spawned_processes import joined as joined
from mpiparallel.communication.threads import alone
from mpiparallel.errors import CommunicationError, ConfigurationError

if TYPE_CHECKING:
    from mpiparallel.communication.gathering import Tie

BACKEND_NAMES: Final = ("mpi", "hccl", "nccl", "mccl")


def init(backend_name: str | None = None) -> None:
    """Make this process a rank; every rank calls it before any other communication.

    Under ``mpirun`` or ``srun`` the ranks are those of MPI. From then on an uncaught exception on any of them ends the
    whole job, and so do failed tests where pytest runs it. The ranks of a host share its cores among their BLAS
    threads. The signal of preemption waits for the end of a step (``train.preemption``).

    A shell may start processes one by one, each with its ``RANK_ID`` and ``RANK_SIZE``. They wait here for each other
    and are ranks of one job from then on; where they cannot be, all are refused. A process started alone is a world of
    one rank, with or without MPI. An existing world is kept. A process that ``grow`` started finds the world of those
    that started it.

    Parameters
    ----------
    backend_name : {"mpi", "hccl", "nccl", "mccl"}, optional
        All mean MPI; the others are there for MindSpore's sake.

    Raises
    ------
    ConfigurationError
        For another name, and for variables that name no rank of a job.
    CommunicationError
        When a launched job cannot load the MPI library of its launcher.
    LaunchError
        When processes that were started one by one cannot be one job.

    Examples
    --------
    Here threads are the ranks, which have a world already:

    >>> from mpiparallel.communication.threads import run_world
    >>> def program(communicator):
    ...     init()
    ...     return get_rank(), get_group_size()
    >>> run_world(2, program)
    [(0, 2), (1, 2)]
    """
    if backend_name is not None and backend_name not in BACKEND_NAMES:
        raise ConfigurationError(f'init: backend_name "{backend_name}" is not one of {", ".join(BACKEND_NAMES)}')
    heed_preemption()
    if not world.initialised():
        opened = _open_world(_launched_ranks(), _tie())
        limit_blas_threads(len(opened.host_ranks))
        world.set_current(opened)


def release() -> None:
    """Leave the world of ranks and free its groups; every rank calls it. Does nothing where there is no world.

    Examples
    --------
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(2, lambda communicator: release())
    [None, None]
    """
    if world.initialised():
        world.current().free()
        world.set_current(None)


def _tie() -> Tie | None:
    """Return what ties this process to mpirun where a shell has started it as one rank of several."""
    if is_launched(os.environ):
        return None
    # Slow to load, and launchers start most ranks.
    from mpiparallel.communication.gathering import join_hand_started

    return join_hand_started()


def _launched_ranks() -> int:
    """Return how many ranks the launcher says it started, 1 where none says so."""
    for variable in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        if os.environ.get(variable, "").isdecimal():
            return int(os.environ[variable])
    return 1


def _open_world(launched: int, tie: Tie | None) -> Communicator:
    try:
        # Importing this module starts MPI, so only a program that asks for a world does.
        from mpiparallel.communication import mpi
    except CommunicationError:
        if launched > 1:
            raise
        return alone()
    communicator = mpi.joined_world() if joined() else mpi.world()
    if communicator.size == 1 < launched:
        raise CommunicationError(
            f"init: the launcher started {launched} ranks, but the MPI library of this Python sees only itself: "
            "the launcher belongs to another MPI; use the mpirun or mpiexec installed beside this Python"
        )
    if communicator.size == 1:
        _warn_of_lone_tasks()
    else:
        if tie:
            abort_hook.abort_on_uncaught_exception(tie.fail)
            end_after_failed_tests(tie.leave)
        else:
            mpi.abort_job_on_uncaught_exception()
            end_after_failed_tests(mpi.leave_job)
        mpi.watch_this_rank()
    return communicator


def _warn_of_lone_tasks() -> None:
    """Say where srun has started several tasks that do not know of each other; programs that want that exist."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "")
    if tasks.isdecimal() and int(tasks) > 1 and os.environ.get("SLURM_PROCID") == "0":
        warnings.warn(
            f"init: srun has started {tasks} tasks, but each is a world of its own; if they are to be ranks of one "
            "job, start them with srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)",
            RuntimeWarning,
            stacklevel=4,
        )
