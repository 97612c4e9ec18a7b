"""How mpirun ended."""

from __future__ import annotations

from dataclasses import field

from mpiparallel.dataclass import dataclass


@dataclass(frozen=True)
class MpirunResult:
    """How mpirun ended: its exit code, what it printed, and what ended it before its time, if anything did.

    Times are in seconds since 1970. What ranks did after ``ended_at``, when the launcher began to end the job, was only
    caused by that. ``sentence`` says what hung, where the launcher found that out. Ranks that are ``shown`` have
    printed on the terminal already. Where it ``survives_deaths``, ranks may die while the others go on. Where it
    ``keeps_logs``, there are logs of the ranks to read.
    """

    code: int
    output: str = ""
    timeout: float | None = None
    signal_number: int | None = None
    started_at: float = 0.0
    ended_at: float = float("inf")
    over_at: float = float("inf")
    sentence: str | None = None
    shown: frozenset[int] = field(default_factory=frozenset)
    survives_deaths: bool = False
    keeps_logs: bool = True
