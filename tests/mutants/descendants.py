"""What a changed package leaves running ends before the next change is tried."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the parent of every process below this one whose own parent ends, so that it is still found."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """Kill all processes below this one, in whatever session, and wait for them."""
    while below := _below(os.getpid()):
        for process in below:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def cpu_seconds(process: int) -> float:
    """Return how long a process and those of its children for which it has waited have run; 0.0 where it is gone."""
    words = _stat(process)
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK") if words else 0.0


def _below(process: int) -> list[int]:
    parents = {int(path.name): _stat(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found = [process]
    for one in found:
        found += [child for child, words in parents.items() if words and int(words[1]) == one]
    return found[1:]


def _stat(process: int) -> list[str]:
    """Return the fields of proc_pid_stat(5) from the third on; none where the process is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
