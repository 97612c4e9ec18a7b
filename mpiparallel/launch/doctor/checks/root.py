"""Starting ranks as root."""

from __future__ import annotations

from collections.abc import Iterator

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding

_ALLOWING = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


def find_root(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield what Open MPI says to root."""
    if machine.user != 0:
        yield Finding("user", "ok", f"number {machine.user}, not root")
    elif machine.mpi.vendor != "openmpi" or all(machine.variables.get(name) == "1" for name in _ALLOWING):
        yield Finding("user", "ok", "root, and ranks may be started as root")
    else:
        yield Finding(
            "user",
            "note",
            'root: a bare mpirun says "mpirun has detected an attempt to run as root"; mpiparallel run allows it',
            f"export {' '.join(f'{name}=1' for name in _ALLOWING)}",
        )
