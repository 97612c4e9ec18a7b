"""The world of MPI ranks. Importing this package starts MPI; nothing outside it imports mpi4py."""

from mpiparallel.communication.mpi.opening import abort_job_on_uncaught_exception as abort_job_on_uncaught_exception
from mpiparallel.communication.mpi.opening import communicator_of as communicator_of
from mpiparallel.communication.mpi.opening import leave_job as leave_job
from mpiparallel.communication.mpi.opening import world as world
from mpiparallel.communication.mpi.spawning import grow as grow
from mpiparallel.communication.mpi.spawning import joined_world as joined_world
from mpiparallel.communication.mpi.watching import watch_this_rank as watch_this_rank

__all__ = [
    "abort_job_on_uncaught_exception",
    "communicator_of",
    "grow",
    "joined_world",
    "leave_job",
    "watch_this_rank",
    "world",
]
