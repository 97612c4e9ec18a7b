"""Reading the text of a file that a user named."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mpiparallel.errors import RankTableError, reason

# Ten times what a table of 10,000 ranks takes.
_MOST_BYTES = 8 << 20


def read_text(path: str | Path, noun: str) -> str:
    """Return the UTF-8 text of the file ``path``, which a message calls a ``noun``.

    Raises RankTableError where it is no regular file, has more than 8 MiB, or cannot be read. A pipe is refused:
    each rank reads the file anew, and one that nobody writes to would never end.
    """
    try:
        return _content(path).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise RankTableError(f"{path}: cannot be read ({reason(error)}); give the path of a {noun}") from None


def _content(path: str | Path) -> bytes:
    # Without O_NONBLOCK, to open a pipe that nobody writes to would never end.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
    return content
