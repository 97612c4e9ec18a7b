"""Start and end of the world of ranks, and its groups by name, under MindSpore's names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Final

from mpiparallel.backend.blas_threads import limit_blas_threads
from mpiparallel.cluster.preemption_signal import heed_preemption
from mpiparallel.communication import abort_hook, world
from mpiparallel.communication.failed_tests import end_after_failed_tests
from mpiparallel.communication.gathering import Tie, join_hand_started
from mpiparallel.communication.joining import joined as joined
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone
from mpiparallel.errors import CommunicationError, ConfigurationError
from mpiparallel.remark import no_effect

BACKEND_NAMES: Final = ("mpi", "hccl", "nccl", "mccl")


class GlobalComm:
    """The names of the group of all ranks; both mean the same."""

    WORLD_COMM_GROUP: Final = "hccl_world_group"
    NCCL_WORLD_COMM_GROUP: Final = "nccl_world_group"


def init(backend_name: str | None = None) -> None:
    """Make this process a rank; every rank calls it before any other communication.

    Under ``mpirun`` or ``srun`` the ranks are those of MPI. From then on an uncaught exception on any of them ends the
    whole job, and so do failed tests where pytest runs it; the ranks of a host share its cores among their BLAS
    threads, and the signal of preemption waits for the end of a step (``train.preemption``). Processes that a shell
    has started one by one, each with its ``RANK_ID`` and ``RANK_SIZE``, wait here for each other and are ranks of one
    job from then on; where they cannot be, all are refused. A process started alone is a world of one rank, with or
    without MPI. An existing world is kept. A process that ``grow`` started finds the world of those that started it.

    ``backend_name`` may be ``None`` or one of ``"mpi"``, ``"hccl"``, ``"nccl"`` and ``"mccl"``, for MindSpore's sake:
    all of them mean MPI. Raises ``ConfigurationError`` for another name and for variables that name no rank of a job,
    ``CommunicationError`` if a launched job cannot load the MPI library of its launcher, ``LaunchError`` if processes
    that were started one by one cannot be one job.
    """
    if backend_name is not None and backend_name not in BACKEND_NAMES:
        raise ConfigurationError(f'init: backend_name "{backend_name}" is not one of {", ".join(BACKEND_NAMES)}')
    heed_preemption()
    if not world.initialised():
        tie = join_hand_started()
        opened = _open_world(_launched_ranks(), tie)
        limit_blas_threads(len(opened.host_ranks))
        world.set_current(opened)


def release() -> None:
    """Leave the world of ranks and free its groups; every rank calls it. Does nothing where there is no world."""
    if world.initialised():
        world.current().free()
        world.set_current(None)


def get_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the rank of this process in ``group``."""
    return _named(group).rank


def get_group_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the number of ranks in ``group``."""
    return _named(group).size


def get_local_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the position of this process among the ranks of ``group`` on its host."""
    communicator = _named(group)
    return communicator.host_ranks.index(communicator.ranks[communicator.rank])


def get_local_rank_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the number of ranks of ``group`` on the host of this process."""
    return len(_named(group).host_ranks)


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """Return the world rank of the member ``group_rank_id`` of ``group``."""
    ranks = _named(group).ranks
    if not 0 <= group_rank_id < len(ranks):
        raise ConfigurationError(f'group "{group}": no member {group_rank_id}; members are 0 to {len(ranks) - 1}')
    return ranks[group_rank_id]


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """Return which member of ``group`` the world rank ``world_rank_id`` is."""
    ranks = _named(group).ranks
    if world_rank_id not in ranks:
        raise ConfigurationError(f'group "{group}": rank {world_rank_id} is not one of its ranks {list(ranks)}')
    return ranks.index(world_rank_id)


def create_group(group: str, rank_ids: Sequence[int], options: object = None) -> None:
    """Name a group of world ranks; exactly these ranks call it. Making the same group again does nothing.

    ``options`` are MindSpore's and change nothing, as a remark says.
    """
    no_effect("create_group", "options", options, "they tune a library of collectives that is not used")
    groups = world.named_groups()
    known = groups.get(group)
    if group in (GlobalComm.WORLD_COMM_GROUP, GlobalComm.NCCL_WORLD_COMM_GROUP):
        raise ConfigurationError(f'create_group: "{group}" is the name of the group of all ranks; choose another')
    if known is not None and known.ranks != tuple(sorted(rank_ids)):
        raise ConfigurationError(
            f'create_group: "{group}" already names the ranks {list(known.ranks)}; '
            f"call destroy_group before it names {list(rank_ids)}"
        )
    groups[group] = known or world.current().group(rank_ids)


def destroy_group(group: str) -> None:
    """Forget the name of a group. What the group holds is given back by ``release``."""
    if world.named_groups().pop(group, None) is None:
        raise ConfigurationError(f'destroy_group: there is no group "{group}"; {_known_names()}')


def _named(group: str) -> Communicator:
    if group in (GlobalComm.WORLD_COMM_GROUP, GlobalComm.NCCL_WORLD_COMM_GROUP):
        return world.current()
    named = world.named_groups().get(group)
    if named is None:
        raise ConfigurationError(f'no group "{group}" on this rank; make it with create_group; {_known_names()}')
    return named


def _known_names() -> str:
    return f"known groups: {', '.join([GlobalComm.WORLD_COMM_GROUP, *world.named_groups()])}"


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
