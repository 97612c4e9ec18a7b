"""A check: what the doctor looks at, and on which machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.machine import ExaminedMachine


@dataclass(frozen=True, slots=True)
class Check:
    """One check: the ``group`` that its findings are shown under, and the function that yields them.

    ``here_only`` checks look at what the job takes from the machine that starts it, so other hosts are spared them.
    ``alone`` checks measure: they run after all others.
    """

    name: str
    group: str
    find: Callable[[ExaminedMachine], Iterable[Finding]]
    here_only: bool = False
    alone: bool = False
