"""What compilers make of CUDA texts, kept in ``build/cache`` between runs of the tests: it takes them a minute."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

_FOLDER = Path(__file__).parents[3] / "build" / "cache"
_SECONDS_UNUSED = 7 * 24 * 3600.0


def kept_file(kind: str, made_of: object, make: Callable[[Path], object]) -> Path:
    """Return the file that ``make`` writes where none is kept of the same ``made_of``, which its ``repr`` tells.

    Files of a kind that nobody has asked for in a week are removed when another is made.
    """
    path = _FOLDER / f"{kind}-{sha256(repr(made_of).encode()).hexdigest()[:16]}"
    if not path.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
            made = Path(folder) / kind
            make(made)
            made.replace(path)
        _remove_unused(kind)
    os.utime(path)
    return path


def _remove_unused(kind: str) -> None:
    for path in _FOLDER.glob(f"{kind}-*"):
        # Another worker may remove it, too.
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _SECONDS_UNUSED:
                path.unlink()
