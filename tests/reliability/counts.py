"""How often a test of reliability tries, and where its figures go: the only place that reads the environment for that.

``make test`` and ``make test-reliability`` try a tenth or less; ``MPIPARALLEL_SOAK=1`` is all of it,
``MPIPARALLEL_SOAK=0.5`` half. ``make soak`` also names a file in ``MPIPARALLEL_SOAK_FIGURES``: each test adds a line of
JSON, and ``report`` makes a table of them.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


def share() -> float:
    """The share of the full counts that is asked for; 0 but in ``make soak``."""
    return float(os.environ.get("MPIPARALLEL_SOAK") or 0)


def count(full: int, few: int) -> int:
    """Return how often to try: ``few``, or in ``make soak`` the share asked for of ``full``."""
    return max(few, round(full * share()))


def record(claim: str, **figures: int) -> None:
    """Add what a test has counted under ``claim`` to the file of figures, if one is named."""
    _add({"claim": claim, "figures": figures})


def record_failure(
    event: str, mpi: str, hosts: int, seconds: float, code: int, said: str, gone_after: float = 0.0
) -> None:
    """Add how a job of so many hosts ended to the file of figures, if one is named.

    ``seconds`` passed from the event to the end of the launcher, ``gone_after`` from there to that of the last process.
    """
    figures = {"seconds": round(seconds, 3), "code": code, "said": said, "gone_after": round(gone_after, 3)}
    _add({"event": event, "mpi": mpi, "hosts": hosts, **figures})


def _add(entry: dict[str, object]) -> None:
    named = os.environ.get("MPIPARALLEL_SOAK_FIGURES")
    if named:
        line = json.dumps(entry | {"date": time.strftime("%Y-%m-%d")})
        with Path(named).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
