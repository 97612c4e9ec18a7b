"""The checks of the doctor: what each looks at, on which machines, and in which order they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mpiparallel.dataclass import dataclass
from mpiparallel.launch.doctor.checks.blas import find_blas, find_threads
from mpiparallel.launch.doctor.checks.cores import find_cores
from mpiparallel.launch.doctor.checks.folders import find_environment_folder, find_folders
from mpiparallel.launch.doctor.checks.gpu import find_gpu
from mpiparallel.launch.doctor.checks.host_name import find_host_name
from mpiparallel.launch.doctor.checks.limits import find_limits
from mpiparallel.launch.doctor.checks.memory import find_left_segments, find_shared_memory, find_temporary_folder
from mpiparallel.launch.doctor.checks.mpi import find_mpi, find_root
from mpiparallel.launch.doctor.checks.slurm import find_slurm
from mpiparallel.launch.doctor.checks.two_ranks import find_start
from mpiparallel.launch.doctor.checks.versions import find_versions
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding


@dataclass(frozen=True)
class Check:
    """One check: the ``group`` that its findings are shown under, and the function that yields them.

    ``here_only`` checks look at what only the machine that starts a job must offer, so they do not run on other hosts.
    ``alone`` checks measure: they run after all others.
    """

    name: str
    group: str
    find: Callable[[ExaminedMachine], Iterable[Finding]]
    here_only: bool = False
    alone: bool = False


CHECKS: tuple[Check, ...] = (
    Check("mpi", "MPI", find_mpi),
    Check("start", "MPI", find_start, here_only=True, alone=True),
    Check("root", "MPI", find_root, here_only=True),
    Check("slurm", "MPI", find_slurm, here_only=True),
    Check("versions", "Python", find_versions),
    Check("cores", "Processor", find_cores),
    Check("blas", "Processor", find_blas),
    Check("threads", "Processor", find_threads, here_only=True),
    Check("gpu", "Processor", find_gpu),
    Check("limits", "Limits", find_limits),
    Check("shared_memory", "Limits", find_shared_memory),
    Check("left_segments", "Limits", find_left_segments),
    Check("temporary_folder", "Limits", find_temporary_folder),
    Check("folders", "Files", find_folders),
    Check("environment_folder", "Files", find_environment_folder),
    Check("host_name", "Network", find_host_name),
)
