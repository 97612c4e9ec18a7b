"""A log that is read while it is written."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_READ_BYTES = 1 << 20
_LONGEST_LINE = 1 << 16


class GrowingLog:
    """A file that grows, given line by line behind a prefix where there is one."""

    def __init__(self, path: Path, prefix: bytes) -> None:
        self._path = path
        self._prefix = prefix
        self._offset = 0
        self._pending = b""

    def skip(self) -> None:
        """Leave out what is there."""
        with suppress(OSError):
            self._offset = self._path.stat().st_size

    def added(self, is_last: bool) -> bytes:
        """Return what was added since the last call; with ``is_last`` also a line without an end."""
        content = b"".join(iter(self._read, b"")) if is_last else self._read()
        if not self._prefix:
            return content
        *lines, self._pending = (self._pending + content).split(b"\n")
        if self._pending and (is_last or len(self._pending) > _LONGEST_LINE):
            lines.append(self._pending)
            self._pending = b""
        return b"".join(self._prefix + line + b"\n" for line in lines)

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                content = stream.read(_READ_BYTES)
        except OSError:
            return b""
        self._offset += len(content)
        return content
