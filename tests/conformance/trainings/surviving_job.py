"""Jobs of Open MPI whose ranks go on when others die."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from mpiparallel.cluster.flight.process_state import state_of
from tests.conformance.mpi_launcher import environment, launcher
from tests.conformance.patience import Patience

ROOT = Path(__file__).parents[3]
_SECONDS = 90.0
_SECONDS_ALONE = 10.0
_SECONDS_TO_STOP = 5.0
_SLICE = 0.5
_OPTIONS = ("--with-ft", "ulfm", "--mca", "coll", "^han")


def run_surviving(interpreter: Path, size: int, module: str, *arguments: object, chaos: str = "") -> tuple[int, str]:
    """Return the exit code of a job and what its ranks print; ``chaos`` says who dies when.

    The test fails where the ranks hang. Open MPI's mpirun may wait for itself when many ranks end at one moment: once
    in some hundred jobs on one machine, in four of ten on another. It is killed then, as ``mpiparallel run`` would do,
    and the code is negative.
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
    patience, alone = Patience(_SECONDS), Patience(_SECONDS_ALONE)
    while patience.is_left() and alone.is_left():
        with suppress(subprocess.TimeoutExpired):
            output = process.communicate(timeout=_SLICE)[0]
            return process.returncode, output
        living = _living_ranks(process.pid)
        if living:
            alone = Patience(_SECONDS_ALONE)
    output = _killed(process)
    assert not living, f"{module} {arguments}, chaos {chaos!r}, hangs, processes {living} live:\n{output}"
    return process.returncode, output


def _living_ranks(mpirun: int) -> list[int]:
    children = Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split()
    return [int(child) for child in children if state_of(int(child)) != "dead"]


def _killed(process: subprocess.Popen[str]) -> str:
    """End mpirun and its ranks, which SIGKILL alone would leave behind; return what they have printed."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        return process.communicate(timeout=_SECONDS_TO_STOP)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]
