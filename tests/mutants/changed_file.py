"""A file that has another content for a while."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def changed_file(path: Path, content: str) -> Iterator[None]:
    """Give a file of Python ``content``, and what it had when it ends, with the time that it had.

    Meanwhile it has a time of its own: what Python has compiled of another content is out of date.
    """
    old, times = path.read_bytes(), path.stat()
    path.write_text(content)
    seconds = zlib.crc32(content.encode())
    os.utime(path, (seconds, seconds))
    try:
        yield
    finally:
        path.write_bytes(old)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
