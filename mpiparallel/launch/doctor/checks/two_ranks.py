"""A real start: two ranks, one sum."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding

_SECONDS = 30
_SLOW_SECONDS = 10.0


def find_start(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield whether ``mpiparallel run -n 2`` works, and in how many seconds from start to end."""
    if machine.mpi.failure:
        yield Finding("start", "note", "2 ranks were not started, as MPI is not ready")
        return
    if "SLURM_STEP_ID" in machine.variables:
        # Hydra starts its proxies by srun, and a step within a step waits for the cores of the outer one.
        what = "2 ranks were not started, as srun holds the cores of this step"
        yield Finding("start", "note", what, "run the doctor in a batch script, or by salloc, without srun")
        return
    # Not in TMPDIR: in an allocation the ranks may run on other hosts.
    folder = next(path for path in (machine.log_dir, *machine.log_dir.parents) if path.is_dir())
    try:
        with tempfile.TemporaryDirectory(prefix=".mpiparallel_doctor_", dir=folder, ignore_cleanup_errors=True) as logs:
            yield _started(machine, logs)
    except OSError as error:
        what = f"2 ranks were not started, as their logs cannot go to {folder} ({error.strerror})"
        yield Finding("start", "error", what, "mpiparallel doctor --log-dir DIR, a folder that can be written")


def _started(machine: ExaminedMachine, folder: str) -> Finding:
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
