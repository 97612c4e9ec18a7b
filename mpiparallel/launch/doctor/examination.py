"""Running checks: side by side, each in its time, whatever they meet."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.registry import Check

SECONDS = 60.0
_REPORT = "mpiparallel --debug doctor tells more; please report it"


def examine(
    machine: ExaminedMachine,
    checks: Sequence[Check],
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Return what ``checks`` find on ``machine``, in their order; each of the two turns takes at most ``seconds``.

    Checks that measure (``alone``) come after the others. A check that fails, or takes too long, is a finding itself.
    ``progress`` is told how many checks have ended, and how many there are.
    """
    found: dict[str, list[Finding]] = {}

    def tell(ended: int) -> None:
        if progress is not None:
            progress(len(found) + ended, len(checks))

    for alone in (False, True):
        found |= _side_by_side(machine, [check for check in checks if check.alone == alone], seconds, tell)
    return [replace(finding, group=check.group) for check in checks for finding in found[check.name]]


def _side_by_side(
    machine: ExaminedMachine, checks: Sequence[Check], seconds: float, tell: Callable[[int], None]
) -> dict[str, list[Finding]]:
    done: queue.SimpleQueue[tuple[str, list[Finding]]] = queue.SimpleQueue()
    for check in checks:
        _begin(partial(_answer, machine, check, done))
    deadline = time.monotonic() + seconds
    found: dict[str, list[Finding]] = {}
    while len(found) < len(checks):
        try:
            name, findings = done.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[name] = findings
        tell(len(found))
    late = Finding("", "warning", f"has not ended within {seconds:g} s", _REPORT)
    return {check.name: found.get(check.name, [replace(late, subject=check.name)]) for check in checks}


def _begin(work: Callable[[], None]) -> None:
    try:
        # A daemon, because one that a file server keeps would keep the whole program.
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError:
        # The limit of processes is reached, which is a finding too.
        work()


def _answer(machine: ExaminedMachine, check: Check, done: queue.SimpleQueue[tuple[str, list[Finding]]]) -> None:
    done.put((check.name, _run(machine, check)))


def _run(machine: ExaminedMachine, check: Check) -> list[Finding]:
    try:
        return list(check.find(machine))
    except Exception as error:
        # One check that meets what nobody thought of must not cost the answers of the others.
        return [Finding(check.name, "warning", f"could not be looked at ({type(error).__name__}: {error})", _REPORT)]
