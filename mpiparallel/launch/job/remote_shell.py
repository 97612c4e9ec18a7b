"""How mpirun reaches other hosts by ssh: of one that does not answer it tells in seconds, not in minutes."""

from __future__ import annotations

from collections.abc import Mapping

_OPTION = "-oConnectTimeout=10"
_OWN_SHELL: Mapping[str, tuple[str, ...]] = {
    "openmpi": ("plm_ssh_agent", "plm_rsh_agent", "orte_rsh_agent"),
    "mpich": ("HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP"),
}
_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "openmpi": {"PRTE_MCA_plm_ssh_agent": f"ssh {_OPTION} : rsh"},
    "mpich": {"HYDRA_LAUNCHER_EXTRA_ARGS": _OPTION},
}
# mpirun of an allocation starts its daemons by the resource manager, whose command would get ssh's option.
_ALLOCATIONS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "COBALT_JOBID")


def ssh_settings(vendor: str, variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return variables that give ssh a time limit to connect; none where ``variables`` name another remote shell.

    >>> ssh_settings("mpich", {})["HYDRA_LAUNCHER_EXTRA_ARGS"]
    '-oConnectTimeout=10'
    >>> ssh_settings("mpich", {"HYDRA_LAUNCHER_EXEC": "/opt/shell"}), ssh_settings("mpich", {"SLURM_JOB_ID": "7"})
    ({}, {})
    """
    has_own = any(word in name for word in _OWN_SHELL[vendor] for name in variables)
    return {} if has_own or any(name in variables for name in _ALLOCATIONS) else _SETTINGS[vendor]
