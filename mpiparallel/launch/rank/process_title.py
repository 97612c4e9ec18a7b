"""What a process is called in lists of processes, where it is another one than its command says."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

# The fields of proc_pid_stat(5) that say where the words of the command are in memory, from the third field on.
_BEGIN, _END = 48 - 3, 49 - 3


def change_title(title: str) -> None:
    """Write ``title`` where the kernel looks for the words of this process's command; it is cut to their length."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
        begin, end = int(fields[_BEGIN]), int(fields[_END])
        # 0 where the kernel does not tell it.
        if 0 < begin < end:
            content = title.encode(errors="replace")[: end - begin - 1]
            ctypes.memmove(begin, content.ljust(end - begin, b"\0"), end - begin)
