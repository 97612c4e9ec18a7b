"""A real start: two ranks, one sum."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.machine import Machine

_SECONDS = 30
_SLOW_SECONDS = 10.0


def find_start(machine: Machine) -> Iterator[Finding]:
    """Yield whether ``mpiparallel run -n 2`` works, and in how many seconds from start to end."""
    if machine.mpi.failure:
        yield Finding("start", "note", "2 ranks were not started, as MPI is not ready")
        return
    try:
        with tempfile.TemporaryDirectory(prefix="mpiparallel_doctor_", ignore_cleanup_errors=True) as folder:
            yield _started(machine, folder)
    except OSError as error:
        mend = "export TMPDIR=/tmp, or another folder that can be written"
        yield Finding("start", "error", f"no folder for temporary files can be made ({error.strerror})", mend)


def _started(machine: Machine, folder: str) -> Finding:
    answer = machine.ask(
        *(machine.python, "-m", "mpiparallel", "run", "-n", "2", "--log-dir", folder, "--timeout", str(_SECONDS)),
        *("-m", "mpiparallel.launch.doctor.probes.two_ranks"),
        seconds=_SECONDS + 10,
    )
    said = answer.facts
    again = "mpiparallel run -n 2 -m mpiparallel.launch.doctor.probes.two_ranks"
    if answer.code != 0 or not said:
        return Finding("start", "error", f"mpiparallel run -n 2 {answer.complaint}", f"{again}; it says more")
    if said.get("sum") != 2:
        return Finding("start", "error", f"2 ranks counted {said.get('sum')} ranks, so they do not meet", again)
    if answer.seconds > _SLOW_SECONDS:
        mend = f"time {machine.python} -c 'import mpi4py.MPI'; if that is slow, so is the file system under it"
        return Finding("start", "warning", f"2 ranks took {answer.seconds:.1f} s to start, add up and end", mend)
    return Finding("start", "ok", f"2 ranks started, added up and ended in {answer.seconds:.1f} s")
