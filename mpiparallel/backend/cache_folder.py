"""Where compiled loops and measurements are kept for other processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """Return the user's cache folder for mpiparallel, or that in numba's cache where one is set.

    >>> cache_folder({"NUMBA_CACHE_DIR": "/scratch/numba"}).as_posix()
    '/scratch/numba/mpiparallel'
    """
    chosen = variables.get("NUMBA_CACHE_DIR") or variables.get("XDG_CACHE_HOME")
    return Path(chosen or Path(variables.get("HOME", "/nonexistent"), ".cache"), "mpiparallel")
