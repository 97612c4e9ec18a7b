"""The system calls with which a checkpoint is written, each seen, failed, cut short or made the last."""

from __future__ import annotations

import errno
import os
import pathlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Call = Callable[..., Any]
# What sees a call: its name, the function that makes it, and the arguments. It gives what the caller is to get.
Observer = Callable[[str, Call, tuple[Any, ...], dict[str, Any]], Any]

WRITES = ("pwrite", "write", "pwritev", "writev")
CHANGES = (
    *("open", *WRITES, "fsync", "fdatasync", "close", "ftruncate", "truncate", "posix_fallocate", "sendfile"),
    *("replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir", "utime", "chmod", "copy_file_range"),
)
READS = ("pread", "preadv", "read")
LOOKS = ("open", *READS, "close", "listdir", "scandir", "stat", "lstat", "fstat")
REAL: dict[str, Call] = {name: getattr(os, name) for name in (*CHANGES, *LOOKS) if hasattr(os, name)}
EXIT_OF_CRASH = 77

_NUMBERS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "EDQUOT": errno.EDQUOT}
_SHORT = {"short write": WRITES, "short read": READS}
KINDS = (*_NUMBERS, "EIO after the call was made", "EIO for ever", "short write")


@contextmanager
def observed(names: tuple[str, ...], observer: Observer) -> Iterator[None]:
    """Let ``observer`` stand between the code of this process and these functions of ``os``."""
    # Python 3.10 binds the functions that paths use when it starts.
    owners = [os, *([pathlib._NormalAccessor] if hasattr(pathlib, "_NormalAccessor") else [])]
    replaced = [(owner, name, vars(owner)[name]) for owner in owners for name in names if name in vars(owner)]

    def standing_in(name: str) -> Call:
        def call(*args: Any, **named: Any) -> Any:
            return observer(name, REAL[name], args, named)

        return call

    try:
        for owner, name, _ in replaced:
            stand_in = standing_in(name)
            setattr(owner, name, stand_in if owner is os else staticmethod(stand_in))
        yield
    finally:
        for owner, name, real in replaced:
            setattr(owner, name, real)


class Fault:
    """Lets call ``number``, counted from 1 over all threads, go wrong; ``fired`` tells whether it came."""

    def __init__(self, number: int, kind: str) -> None:
        self.number = number
        self.kind = kind
        self.fired = False
        self.seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, name: str, real: Call, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self.kind in _SHORT and name not in _SHORT[self.kind]:
            return real(*args, **named)
        with self._lock:
            self.seen[name] += 1
            now = self.seen.total()
            due = now == self.number or (now > self.number and self.kind == "EIO for ever")
            self.fired |= due
        return self._go_wrong(name, real, args, named) if due else real(*args, **named)

    def _go_wrong(self, name: str, real: Call, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self.kind == "crash":
            os._exit(EXIT_OF_CRASH)
        if self.kind in _SHORT:
            return _cut_short(name, real, args)
        if name == "close" or "after" in self.kind:
            real(*args, **named)
        number = _NUMBERS.get(self.kind, errno.EIO)
        raise OSError(number, os.strerror(number), args[0] if args and isinstance(args[0], str) else None)


def _cut_short(name: str, real: Call, args: tuple[Any, ...]) -> Any:
    """Make a call that reads or writes for the first half of its bytes only."""
    descriptor, content, *offset = args
    if isinstance(content, int):
        return real(descriptor, max(1, content // 2), *offset)
    if name.endswith("v"):
        return real(descriptor, [_half(content[0])], *offset)
    return real(descriptor, _half(content), *offset)


def _half(content: Any) -> memoryview:
    view = memoryview(content).cast("B")
    return view[: max(1, view.nbytes // 2)]
