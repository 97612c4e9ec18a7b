"""What options of ``mpiparallel run`` say to the ranks: environment variables, checked before any rank starts."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from mpiparallel.cluster.fault_plan import FaultPlan
from mpiparallel.cluster.flight.watchdog import SECONDS_VARIABLE, watchdog_seconds
from mpiparallel.cluster.preemption_signal import VARIABLE as PREEMPTION_VARIABLE
from mpiparallel.cluster.preemption_signal import preemption_signals

CHAOS_VARIABLE = "MPIPARALLEL_CHAOS"


def rank_settings(arguments: argparse.Namespace, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that ``arguments`` set for the ranks of a job whose environment is ``variables``.

    Raises ConfigurationError for what the ranks would refuse.
    """
    given = {
        SECONDS_VARIABLE: arguments.watchdog,
        PREEMPTION_VARIABLE: arguments.preemption_signal,
        CHAOS_VARIABLE: arguments.chaos,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    known = {**variables, **settings}
    watchdog_seconds(known)
    preemption_signals(known)
    if known.get(CHAOS_VARIABLE):
        FaultPlan.parse(known[CHAOS_VARIABLE])
    return settings
