"""How many cores there really are: affinity, quota of the control group, what a user's settings pin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from mpiparallel.cluster.rank_order import runs
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.mounts import Mount, mounts

_PROCESSOR = re.compile(r"^processor\s*:", re.MULTILINE)
_PINNING = (
    "GOMP_CPU_AFFINITY",
    "HYDRA_BINDING",
    "KMP_AFFINITY",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMPI_MCA_hwloc_base_binding_policy",
    "PRTE_MCA_hwloc_default_binding_policy",
)


def find_cores(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield cores against ranks, a smaller affinity, a smaller quota, and settings that pin ranks to cores."""
    cores = len(machine.cores)
    there = len(_PROCESSOR.findall(machine.text("proc/cpuinfo")))
    shared = machine.ranks > cores
    fewer = f"mpiparallel run -n {cores}"
    yield Finding(
        "slots",
        "note" if shared else "ok",
        f"{_several(cores, 'core')} for {_several(machine.ranks, 'rank')}"
        + (": they share cores, which mpiparallel run allows and mpirun refuses" if shared else ""),
        fewer if shared else "",
    )
    if there > cores:
        yield Finding(
            "affinity",
            "warning" if machine.ranks > cores else "note",
            f"this process may use {cores} of {there} cores ({runs(sorted(machine.cores))}), and so may all its ranks",
            f"taskset -c 0-{there - 1} mpiparallel run ..., or ask the batch system for more cores a task",
        )
    yield from _quota(machine, cores)
    yield from _pinning(machine)


def _quota(machine: ExaminedMachine, cores: int) -> Iterator[Finding]:
    found = min((limit for limit in cpu_limits(machine)), default=None)
    if found is None or found >= cores:
        return
    threads = max(1, int(found // machine.ranks))
    yield Finding(
        "quota",
        "warning",
        f"the control group allows {found:g} cores of {cores}: ranks that count {cores} are stopped again and again",
        f"export OPENBLAS_NUM_THREADS={threads} OMP_NUM_THREADS={threads}, or raise the limit of the container's CPUs",
    )


def cpu_limits(machine: ExaminedMachine) -> Iterator[float]:
    """Yield the limits, in cores, of the control groups that this process is in, of both versions of their files."""
    listed = [line.split(":", 2) for line in machine.text("proc/self/cgroup").splitlines() if line.count(":") >= 2]
    for mount in mounts(machine.text("proc/self/mountinfo")):
        if mount.kind == "cgroup2":
            own = next((path for number, names, path in listed if number == "0" and not names), None)
            for folder in _folders(mount, own):
                quota, _, period = machine.text(f"{folder}/cpu.max").partition(" ")
                yield from _ratio(quota, period)
        elif mount.kind == "cgroup" and "cpu" in mount.options:
            own = next((path for _, names, path in listed if "cpu" in names.split(",")), None)
            for folder in _folders(mount, own):
                quota = machine.text(f"{folder}/cpu.cfs_quota_us")
                yield from _ratio(quota, machine.text(f"{folder}/cpu.cfs_period_us"))


def _folders(mount: Mount, own: str | None) -> Sequence[str]:
    """Return the folders of the control group ``own`` and of those above it, as they are seen under the mount."""
    base = mount.point.lstrip("/")
    if own is None or ".." in own.split("/"):
        return [base]
    path = PurePosixPath(own)
    within = path.relative_to(mount.source) if path.is_relative_to(mount.source) else path.relative_to("/")
    return [f"{base}/{part}" for part in [within, *within.parents]]


def _ratio(quota: str, period: str) -> Iterator[float]:
    words = quota.strip(), period.strip()
    if all(word.isascii() and word.isdigit() and len(word) < 16 for word in words) and int(words[1]):
        yield int(words[0]) / int(words[1])


def _pinning(machine: ExaminedMachine) -> Iterator[Finding]:
    found = [name for name in _PINNING if machine.variables.get(name, "none") not in ("none", "false", "FALSE")]
    if found:
        told = ", ".join(f"{name}={machine.variables[name][:40]}" for name in found)
        yield Finding(
            "pinning",
            "warning",
            f"{told} may put the threads of all ranks on the same cores",
            f"unset {' '.join(found)}",
        )


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
