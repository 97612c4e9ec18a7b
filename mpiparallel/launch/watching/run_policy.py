"""The policy of a run: how long it may take, who is shown, and what the death of a rank means."""

from __future__ import annotations

import signal
from dataclasses import field

from mpiparallel.cluster.flight.watchdog import SECONDS
from mpiparallel.dataclass import dataclass
from mpiparallel.launch.job.output_selection import OutputSelection

START_SECONDS = 120.0


@dataclass(frozen=True)
class RunPolicy:
    """The policy of one start of a job.

    After ``timeout`` seconds it is stopped, and ``start_timeout`` seconds after its first rank has begun if others
    have not. The signals ``preemption`` are passed on to the ranks. Where it ``survives_deaths``, a rank that dies
    ends only itself; where it ``spans_hosts``, other hosts may call the launcher. ``attempt`` counts the starts of
    the job, from 0; those before took ``spent`` seconds of its time. Where it ``keeps_logs``, users are told where. A
    process may go on for ``watchdog`` seconds after the scripts of all ranks have ended, None for any time.
    """

    timeout: float | None = None
    shown: OutputSelection = field(default_factory=OutputSelection)
    spans_hosts: bool = False
    survives_deaths: bool = False
    preemption: tuple[signal.Signals, ...] = (signal.SIGUSR1,)
    attempt: int = 0
    spent: float = 0.0
    start_timeout: float = START_SECONDS
    keeps_logs: bool = True
    watchdog: float | None = SECONDS
