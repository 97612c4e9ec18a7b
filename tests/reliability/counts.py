"""How often a test of reliability tries, and where its figures go: the only place that reads the environment for that.

``make test`` tries a tenth or less; ``MPIPARALLEL_SOAK=1`` is all of it, ``MPIPARALLEL_SOAK=0.5`` half. ``make soak``
also names a file in ``MPIPARALLEL_SOAK_FIGURES``: each test adds a line of JSON, and ``report`` makes a table of them.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


def share() -> float:
    """The share of the full counts that is asked for; 0 in ``make test``."""
    return float(os.environ.get("MPIPARALLEL_SOAK") or 0)


def count(full: int, few: int) -> int:
    """Return how often to try: ``few`` in ``make test``, the share asked for of ``full`` in ``make soak``."""
    return max(few, round(full * share()))


def record(claim: str, **figures: int) -> None:
    """Add what a test has counted under ``claim`` to the file of figures, if one is named."""
    named = os.environ.get("MPIPARALLEL_SOAK_FIGURES")
    if named:
        line = json.dumps({"claim": claim, "date": time.strftime("%Y-%m-%d"), "figures": figures})
        with Path(named).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
