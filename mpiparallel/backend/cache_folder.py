"""Where compiled loops and measurements are kept for other processes, and how."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def cache_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """Return the user's cache folder for mpiparallel, or that in numba's cache where one is set.

    >>> cache_folder({"NUMBA_CACHE_DIR": "/scratch/numba"}).as_posix()
    '/scratch/numba/mpiparallel'
    """
    chosen = variables.get("NUMBA_CACHE_DIR") or variables.get("XDG_CACHE_HOME")
    return Path(chosen or Path(variables.get("HOME", "/nonexistent"), ".cache"), "mpiparallel")


def keep(path: Path, content: bytes) -> bool:
    """Write a file of that folder, whole or not at all; return whether it is there.

    It is not where the disk is full, or where the folder is another user's. Without it, time is lost and nothing else.
    """
    # Few processes write there.
    from tempfile import NamedTemporaryFile

    draft: Path | None = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_uid != os.getuid():
            return False
        # No two threads, processes or hosts write to one draft.
        with NamedTemporaryFile(prefix=f"{path.name}.", dir=path.parent, delete=False) as file:
            draft = Path(file.name)
            file.write(content)
        draft.replace(path)
        return True
    except OSError:
        if draft is not None:
            with suppress(OSError):
                draft.unlink()
        return False
