"""Jobs of Open MPI whose ranks go on when others die."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.conformance.mpi_launcher import environment, launcher

ROOT = Path(__file__).parents[2]
_OPTIONS = ("--with-ft", "ulfm", "--mca", "coll", "^han")


def run_surviving(
    interpreter: Path, size: int, module: str, *arguments: object, chaos: str = "", timeout: float = 90.0
) -> tuple[int, str]:
    """Return the exit code of a job and what its ranks print; ``chaos`` says who dies when.

    The test fails where the job does not end in time.
    """
    variables = {"MPIPARALLEL_ON_FAILURE": "shrink", "MPIPARALLEL_CHAOS": chaos}
    process = subprocess.Popen(
        [launcher(interpreter), *_OPTIONS, "-n", str(size), str(interpreter), "-m", module, *map(str, arguments)],
        env={**environment(ROOT), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGTERM)
        output = process.communicate()[0]
        raise AssertionError(f"{module} {arguments}, chaos {chaos!r}, hangs after {timeout:g} s:\n{output}") from error
    return process.returncode, output
