"""Showing what ranks print while they print it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mpiparallel.errors import LaunchError
from mpiparallel.launch.rank.rank_folder import RankFolder

_RANKS = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")
_READ_BYTES = 1 << 20
_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class Shown:
    """Whose output is shown live, and whether each line says whose it is."""

    ranks: tuple[int, ...] = (0,)
    is_prefixed: bool = False

    @classmethod
    def parse(cls, text: str, size: int) -> Shown:
        """Return the ranks that ``text`` lists, of ``size``. Raises LaunchError for what is no list of them.

        >>> Shown.parse("0,3-5", 8).ranks
        (0, 3, 4, 5)
        """
        ranks: set[int] = set()
        for part in text.split(","):
            found = _RANKS.fullmatch(part.strip())
            first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
            if not first <= last < size:
                raise LaunchError(f'--tee-ranks {text}: "{part}" names no ranks of 0 to {size - 1}; give 0,3-5')
            ranks.update(range(first, last + 1))
        return cls(tuple(sorted(ranks)), True)


class Tee:
    """Copies the growing logs of ranks to stdout: one rank's as it is, several line by line behind ``[rank]``."""

    def __init__(self, shown: Shown, folders: Sequence[RankFolder]) -> None:
        self._logs = [
            GrowingLog(folders[rank].log, f"[{rank}] ".encode() if shown.is_prefixed else b"") for rank in shown.ranks
        ]

    def follow(self, folder: RankFolder) -> None:
        """Show the log of one more rank, as it is, from now on."""
        log = GrowingLog(folder.log, b"")
        log.skip()
        self._logs.append(log)

    def show(self, is_last: bool = False) -> None:
        """Write what was added to the logs since the last call; with ``is_last`` also lines without an end."""
        # As bytes: a terminal that cannot show a character must not end the job.
        content = b"".join([log.added(is_last) for log in self._logs])
        if not content:
            return
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # Who read it has gone, as head does; the job goes on, and its logs have it all.
            self._logs.clear()


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
