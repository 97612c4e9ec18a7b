"""Folders in memory, for tests that write files but do not ask what a disk does.

A file system in memory syncs at once. On a disk each sync waits for its blocks, some milliseconds, tens of thousands
of times.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 2 << 30


@contextmanager
def memory_folder() -> Iterator[Path | None]:
    """Give a new folder in memory, and delete it afterwards; None where there is no room, or programs cannot run."""
    if not _is_fit():
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="mpiparallel-test-", dir=_MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_fit() -> bool:
    if not os.access(_MEMORY, os.W_OK):
        return False
    found = os.statvfs(_MEMORY)
    return found.f_bavail * found.f_frsize >= _ROOM and not found.f_flag & os.ST_NOEXEC


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a test, in memory where there is room; a conftest that imports this takes it in pytest's place."""
    with memory_folder() as memory:
        yield memory or tmp_path_factory.mktemp("test")
