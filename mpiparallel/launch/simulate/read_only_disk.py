"""A time in which this process changes no file: whoever tries is told so, as by a disk that can only be read."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset(
    f"os.{name}" for name in ("mkdir", "rename", "remove", "rmdir", "link", "symlink", "truncate", "chmod", "chown")
)
_DEVICES = ("/dev/", "/proc/self/")
# Files like any others, though in memory.
_NO_DEVICES = ("/dev/shm/",)


class _Watch:
    """Refuses changes of files while ``holds``; Python lets nobody take such a watch away again."""

    def __init__(self) -> None:
        self.holds = False
        self._is_set = False

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            sys.addaudithook(self._heed)

    def _heed(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.holds:
            return
        path = arguments[0] if arguments else None
        if event == "open":
            flags = arguments[2]
            if not (isinstance(flags, int) and flags & _WRITING) or not isinstance(path, (str, bytes)):
                return
        elif event not in _CHANGES:
            return
        if isinstance(path, (str, bytes)) and not _is_device(os.fsdecode(path)):
            raise OSError(errno.EROFS, "a simulation writes no file", path)


def _is_device(path: str) -> bool:
    return path.startswith(_DEVICES) and not path.startswith(_NO_DEVICES)


_WATCH = _Watch()


@contextmanager
def read_only_disk() -> Iterator[None]:
    """Let no file be opened for writing, made, renamed or removed within: OSError says which, with EROFS."""
    _WATCH.set()
    held, compiles = _WATCH.holds, sys.dont_write_bytecode
    _WATCH.holds = sys.dont_write_bytecode = True
    try:
        yield
    finally:
        _WATCH.holds, sys.dont_write_bytecode = held, compiles
