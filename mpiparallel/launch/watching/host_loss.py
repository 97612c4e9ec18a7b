"""What mpirun says of hosts: which one it has lost, and which process it saw die there."""

from __future__ import annotations

import re

from mpiparallel.dataclass import dataclass

# Open MPI says one or the other, as its own connection or ssh's ends first; ssh says the third under either MPI.
_LOST_HOST = re.compile(
    r"^ +Remote daemon: \[[^\]]*\] on node (\S+)"
    r"|^ +Remote host: +(\S+)\n +Daemon exit status:"
    r"|^Connection to (\S+) closed by remote host\.",
    re.MULTILINE,
)
# mpiexec says that a connection to one of its proxies is gone, but not which.
_LOST_PROXY = re.compile(r"^\[mpiexec@[^\]]*\] control_cb .*assert \(!closed\) failed", re.MULTILINE)
_KILLED_PROCESS = re.compile(r"BAD TERMINATION .*\n=\s+PID ([0-9]+) RUNNING AT (\S+)\n=\s+EXIT CODE: ([0-9]+)\n")


def lost_host(output: str) -> str | None:
    """Return the host whose daemon mpirun says in its ``output`` that it has lost, None if it says nothing like that.

    >>> lost_host("  Local host:    n0\\n  Remote host:   n3\\n  Daemon exit status: 255\\n")
    'n3'
    """
    found = _LOST_HOST.search(output)
    return next(filter(None, found.groups())) if found else None


def lost_some_host(output: str) -> bool:
    """Return whether MPICH's mpiexec says in its ``output`` that it has lost a host, which it does not name."""
    return _LOST_PROXY.search(output) is not None


@dataclass(frozen=True)
class KilledProcess:
    """A process by its host and its pid there, and the status with which it ended, as wait(2) gives it."""

    host: str
    pid: int
    status: int


def killed_process(output: str) -> KilledProcess | None:
    """Return the process that MPICH's mpiexec, which knows no ranks, says in its ``output`` that it saw end badly.

    >>> killed_process("= BAD TERMINATION OF ONE OF YOUR\\n=   PID 349 RUNNING AT n2\\n=   EXIT CODE: 9\\n")
    KilledProcess(host='n2', pid=349, status=9)
    """
    found = _KILLED_PROCESS.search(output)
    return KilledProcess(found[2], int(found[1]), int(found[3])) if found else None
