"""The resident memory of this process by where it is mapped from, as the kernel counts it."""

from __future__ import annotations

import ctypes
from pathlib import Path


def resident() -> dict[str, int]:
    """Return the bytes that are resident: in ``all``, of files, of memory shared between ranks, and of its own."""
    found = dict.fromkeys(("all", "files", "shared", "own"), 0)
    kind = "own"
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):
            kind = _kind(rest[4] if len(rest) == 5 else "")
        elif first == "Rss:":
            found[kind] += int(rest[0]) * 1024
            found["all"] += int(rest[0]) * 1024
    return found


def _kind(path: str) -> str:
    if path.startswith(("/dev/shm", "/dev/zero", "/SYSV", "/memfd")) or "_segment" in path:
        return "shared"
    return "files" if path.startswith("/") else "own"


def given_back() -> None:
    """Let the C library give back what is free, where it can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
