"""What the doctor has found, as JSON that programs can rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from mpiparallel.launch.doctor.finding import STATES, Finding

VERSION = 1


def document(findings: Sequence[Finding], facts: Mapping[str, str], ranks: int, seconds: float) -> str:
    """Return JSON with these keys; later versions add keys, and change none without another ``version``.

    ``version``: 1. ``facts``: ``host``, ``mpiparallel``, ``mpi``, ``python``, ``numpy``, ``kernels``. ``ranks``: how
    many the host was examined for. ``seconds``: how long that took. ``counts``: of each state. ``findings``: objects of
    ``host`` (empty: this machine), ``group``, ``subject``, ``state`` (ok, note, warning, error), ``what``, ``mend``.
    """
    counts = {state: sum(finding.state == state for finding in findings) for state in STATES}
    return json.dumps(
        {
            "version": VERSION,
            "facts": dict(facts),
            "ranks": ranks,
            "seconds": round(seconds, 3),
            "counts": counts,
            "findings": [asdict(finding) for finding in findings],
        },
        indent=1,
    )
