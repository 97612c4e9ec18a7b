"""The name of this machine, by which MPI's daemons call each other."""

from __future__ import annotations

from collections.abc import Iterator

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding

_SECONDS = 5.0
_SLOW_SECONDS = 1.0


def find_host_name(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield whether the machine finds its own name, and soon."""
    answer = machine.probe("host_name", seconds=_SECONDS)
    found = answer.facts
    name = found.get("name", "")
    mend = f'echo "127.0.1.1 {name or "$(hostname)"}" >> /etc/hosts'
    if not name:
        yield Finding("host name", "warning", f"asking for it {answer.complaint}", mend)
    elif "seconds" not in found:
        what = f'looking up "{name}" {answer.failure}; MPI waits for it at each start'
        yield Finding("host name", "error", what, mend)
    elif "failure" in found:
        what = f'"{name}" has no address ({found["failure"]}); some MPI libraries then do not start'
        yield Finding("host name", "warning", what, mend)
    elif found["seconds"] > _SLOW_SECONDS:
        what = f'looking up "{name}" takes {found["seconds"]:.1f} s; MPI waits for it at each start'
        yield Finding("host name", "warning", what, mend)
    else:
        yield Finding("host name", "ok", f"{name}, {', '.join(found['addresses'][:3])}")
