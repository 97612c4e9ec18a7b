"""A small file system of its own, so that a disk can be full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, byte_count: int) -> Iterator[Path]:
    """Mount a file system of so many bytes at the new ``folder``; the test is skipped where that is not allowed."""
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={byte_count}", "tmpfs", str(folder)]
    mounted = subprocess.run(mounting, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"only root may mount a small disk: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
