"""SLURM: whether this is an allocation, and which kind of srun starts ranks of the MPI at hand."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding

_SECONDS = 5.0
# The interface that each library needs of srun.
_INTERFACES = {"openmpi": "pmix", "mpich": "pmi2"}
_INSTALLING = {
    "pmix": "apt-get install libpmix-dev on each node and restart slurmd",
    "pmi2": "install SLURM's pmi2 plugin on each node",
}


def find_slurm(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield SLURM's version, the allocation around, and the ``--mpi`` that fits the library."""
    job = machine.variables.get("SLURM_JOB_ID")
    if shutil.which("srun", path=machine.variables.get("PATH")) is None:
        if job:
            what = f"job {job}, but srun is not on the PATH"
            yield Finding("SLURM", "error", what, 'export PATH=/opt/slurm/bin:"$PATH", or wherever your SLURM is')
        else:
            yield Finding("SLURM", "note", "not there")
        return
    listing = machine.ask("srun", "--mpi=list", seconds=_SECONDS)
    if listing.failure:
        what = f"{f'job {job}' if job else 'srun is there'}, but srun --mpi=list {listing.complaint}"
        mend = "scontrol ping; is this a host of the cluster?"
        yield Finding("SLURM", "error" if job else "note", what, mend)
        return
    version = machine.ask("srun", "--version", seconds=_SECONDS).output.strip()
    yield Finding("SLURM", "ok", f"{version or 'SLURM'}, {_allocation(machine, job)}")
    yield from _interface(machine, f"{listing.output}\n{listing.error}")


def _allocation(machine: ExaminedMachine, job: str | None) -> str:
    if not job:
        return "outside any job"
    names = {"SLURM_JOB_NUM_NODES": "nodes", "SLURM_TASKS_PER_NODE": "tasks a node", "SLURM_JOB_NODELIST": "on"}
    told = {words: machine.variables.get(name, "?") for name, words in names.items()}
    return f"job {job}: {told['nodes']} nodes, {told['tasks a node']} tasks a node, on {told['on']}"


def _interface(machine: ExaminedMachine, listed: str) -> Iterator[Finding]:
    wanted = _INTERFACES.get(machine.mpi.vendor)
    offered = set(re.findall(r"\b(pmix|pmi2|cray_shasta|none)(?:_v\d+)?\b", listed))
    if wanted is None:
        return
    if wanted in offered:
        yield Finding("srun", "ok", f"srun --mpi={wanted} starts ranks of {machine.mpi.library}")
        return
    told = ", ".join(sorted(offered)) or "no interface"
    what = f"offers {told}; {machine.mpi.library} needs {wanted}, and without it each rank is alone"
    yield Finding("srun", "warning", what, f"{_INSTALLING[wanted]}, or start jobs by mpiparallel run, which needs none")
