"""Reading the text of a file that a user named."""

from __future__ import annotations

from pathlib import Path

from mpiparallel.errors import RankTableError


def read_text(path: str | Path, noun: str) -> str:
    """Return the UTF-8 text of ``path``; raise `RankTableError`, which asks for a ``noun``, if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:
        reason = str(error)
    raise RankTableError(f"{path}: cannot be read ({reason}); give the path of a {noun}")
