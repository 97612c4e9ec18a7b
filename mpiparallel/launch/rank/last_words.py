"""The last words of a rank, in its log whatever its script has made of stderr."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

_COMPARED_BYTES = 64 * 1024


def print_last_words(words: str, log: Path) -> None:
    """Print ``words`` on stderr, as Python would, and see to it that they are at the end of ``log``."""
    # What a script has put in the place of a stream may raise anything.
    with suppress(Exception):
        sys.stdout.flush()
    with suppress(Exception):
        sys.stderr.write(words)
        sys.stderr.flush()
    with suppress(OSError):
        content = words.encode(errors="backslashreplace")
        if not _ends_with(log, content):
            # By its name: the number of a closed descriptor may be that of a file of the user's by now.
            with log.open("ab") as stream:
                stream.write(content)


def _ends_with(log: Path, content: bytes) -> bool:
    tail = content[-_COMPARED_BYTES:]
    with log.open("rb") as stream:
        end = stream.seek(0, 2)
        stream.seek(max(0, end - 2 * _COMPARED_BYTES))
        return tail in stream.read()
