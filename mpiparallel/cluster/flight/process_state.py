"""What the system knows of the process of a recording, where it is on this host."""

from __future__ import annotations

import os
from pathlib import Path

from mpiparallel.cluster.flight.recorder import process_space
from mpiparallel.cluster.flight.recording import Recording

# Among the fields that follow the name of the program.
_BIRTH = 19


def process_state(recording: Recording) -> str:
    """Return "dead" or "stopped", or nothing where the process runs, or its number means nothing here."""
    if recording.host != os.uname().nodename or recording.process_space != process_space():
        return ""
    return state_of(recording.process)


def state_of(process: int) -> str:
    """Return "dead" or "stopped", or nothing where the process of this number, of this system's, runs."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except FileNotFoundError:
        return "dead"
    except OSError:
        return ""
    state = status.rpartition(")")[2].split()[0]
    return {"Z": "dead", "X": "dead", "T": "stopped", "t": "stopped"}.get(state, "")


def birth_of(process: int) -> int | None:
    """Return when the process of this number began, in ticks since its host has; None where that is not told."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[_BIRTH])
