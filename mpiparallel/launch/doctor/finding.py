"""What a check has found about one subject, and the line that mends it."""

from __future__ import annotations

from typing import Literal

from mpiparallel.dataclass import dataclass

Severity = Literal["ok", "note", "warning", "error"]
STATES: tuple[Severity, ...] = ("ok", "note", "warning", "error")


@dataclass(frozen=True)
class Finding:
    """One subject, its state, what was seen, and the line that mends it; empty where nothing is to be mended.

    ``note`` is worth knowing, ``warning`` slows or endangers a job, ``error`` means that jobs fail. ``group`` and
    ``host`` are filled in by the examination; ``host`` is empty for the machine that the doctor was started on.
    """

    subject: str
    state: Severity
    what: str
    mend: str = ""
    group: str = ""
    host: str = ""
