"""Folders made ready for a run, so that nothing that came before it counts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def clear(folder: Path) -> None:
    """Let a folder be empty, and let the disk be done with all that came before."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.sync()


def forget(folder: Path) -> None:
    """Let the kernel forget what it has read of the files in a folder; where files lie in memory nothing happens."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
