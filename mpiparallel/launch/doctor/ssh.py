"""The command that reaches another host as mpirun would, and what to do where it does not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

_AGENTS = {
    "openmpi": ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent"),
    "mpich": ("HYDRA_LAUNCHER_EXEC",),
}
# One word each, as scripts in the place of ssh tell options from the host by the dash.
_OPTIONS = ("-oBatchMode=yes", "-oConnectTimeout=5")
NO_FOLDER, NO_PYTHON = 71, 72
_MENDS = (
    (r"Host key verification failed|REMOTE HOST IDENTIFICATION", "ssh-keyscan {host} >> ~/.ssh/known_hosts"),
    (r"Permission denied", "ssh-copy-id {host}, so that ssh needs no password"),
    (
        r"Could not resolve|Name or service not known",
        "write its address into /etc/hosts, or mend its name in the hostfile",
    ),
    (r"timed out|No route", "ping {host}; is it up, and in this network?"),
    (r"refused", "start sshd on {host}, or give its port in ~/.ssh/config"),
)


def ssh_argv(host: str, program: str, vendor: str, variables: Mapping[str, str]) -> list[str]:
    """Return the words that run the shell ``program`` on ``host`` through the agent that mpirun of ``vendor`` takes.

    >>> ssh_argv("node1", "true", "mpich", {"HYDRA_LAUNCHER_EXEC": "/opt/ssh -q"})
    ['/opt/ssh', '-q', '-oBatchMode=yes', '-oConnectTimeout=5', 'node1', 'sh -c true']
    """
    given = [variables[name] for name in _AGENTS.get(vendor, ()) if variables.get(name)]
    agent = shlex.split(given[0].partition(":")[0]) if given else ["ssh"]
    return [*agent, *_OPTIONS, host, f"sh -c {shlex.quote(program)}"]


def remote_program(python: str, module: str, folder: Path, variables: Mapping[str, str]) -> str:
    """Return the shell program that starts ``module`` in ``folder``, where a job would run, by the same Python.

    It ends with code 71 if the folder is not there, 72 if the Python is not.
    """
    path = variables.get("PYTHONPATH")
    carried = f"PYTHONPATH={shlex.quote(path)} " if path else ""
    return (
        f"cd {shlex.quote(str(folder))} 2>/dev/null || exit {NO_FOLDER}; "
        f"test -x {shlex.quote(python)} || exit {NO_PYTHON}; "
        f"exec env {carried}{shlex.quote(python)} -m {module}"
    )


def mend_of(complaint: str, host: str) -> str:
    """Return the line that mends what ssh says in ``complaint``.

    >>> mend_of("ssh: connect to host node1 port 22: Connection refused", "node1")
    'start sshd on node1, or give its port in ~/.ssh/config'
    """
    found = (mend for pattern, mend in _MENDS if re.search(pattern, complaint))
    return next(found, "ssh -v {host} true").format(host=host)
