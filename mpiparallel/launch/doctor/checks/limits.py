"""The limits of a process, as ``ulimit`` sets them, against the number of ranks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.job.host_room import ENOUGH_FILES, enough_files

_LINE = re.compile(r"(Max [a-z ]+?)\s{2,}(\S+)\s+(\S+)")
_MIB = 1 << 20
_TASKS = 256
_TASKS_A_RANK = 16
_STACK_BYTES = 2 * _MIB
_LOCKED_BYTES = 1 << 30


def find_limits(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield the limits that are too low for the ranks; one line sums up the others."""
    limits = _soft_limits(machine.text("proc/self/limits"))
    if not limits:
        yield Finding("ulimits", "note", "/proc/self/limits tells none")
        return
    low = [*_counted(machine, limits), *_memory(machine, limits)]
    yield from low
    if not low:
        files, tasks, stack = (
            limits.get(f"Max {name}", math.inf) for name in ("open files", "processes", "stack size")
        )
        told = f"{_number(files)} open files, {_number(tasks)} processes, stack {_number(stack / _MIB)} MiB"
        yield Finding("ulimits", "ok", f"{told}: enough for {machine.ranks} rank{'s' * (machine.ranks != 1)}")
    if limits.get("Max core file size") == 0:
        yield Finding("core files", "note", "a rank that crashes leaves no core file", "ulimit -c unlimited")


def _counted(machine: ExaminedMachine, limits: Mapping[str, float]) -> Iterator[Finding]:
    files = enough_files(machine.ranks)
    if (found := limits.get("Max open files", math.inf)) < files:
        what = f"{found:g} open files a process, fewer than the {files} that {machine.ranks} ranks may need"
        yield Finding(
            "open files", "error" if found < files / 2 else "warning", what, f"ulimit -n {max(files, ENOUGH_FILES)}"
        )
    tasks = _TASKS + _TASKS_A_RANK * machine.ranks
    # Root may start as many as it likes.
    if machine.user and (found := limits.get("Max processes", math.inf)) < tasks:
        what = f"{found:g} processes and threads, fewer than the {tasks} that {machine.ranks} ranks may need"
        yield Finding("processes", "warning", what, f"ulimit -u {max(tasks, 4096)}")


def _memory(machine: ExaminedMachine, limits: Mapping[str, float]) -> Iterator[Finding]:
    if (found := limits.get("Max stack size", math.inf)) < _STACK_BYTES:
        yield Finding("stack", "warning", f"{found / 1024:g} KiB; compiled kernels may crash", "ulimit -s 8192")
    if (found := limits.get("Max address space", math.inf)) < math.inf:
        what = f"{found / _MIB:,.0f} MiB a process; shared memory of all ranks counts in each"
        yield Finding("address space", "warning", what, "ulimit -v unlimited")
    fabric = machine.root / "sys/class/infiniband"
    locked = limits.get("Max locked memory", math.inf)
    if fabric.is_dir() and any(fabric.iterdir()) and locked < _LOCKED_BYTES:
        what = f"{locked / 1024:g} KiB, and there is an InfiniBand adapter, which needs its buffers locked"
        yield Finding("locked memory", "error", what, "ulimit -l unlimited; for good in /etc/security/limits.conf")


def _soft_limits(text: str) -> dict[str, float]:
    found = (_LINE.match(line) for line in text.splitlines())
    return {match[1]: math.inf if match[2] == "unlimited" else _count(match[2]) for match in found if match}


def _count(word: str) -> float:
    return float(word) if word.isascii() and word.isdigit() else math.inf


def _number(value: float) -> str:
    return "unlimited" if value == math.inf else f"{value:,.0f}"
