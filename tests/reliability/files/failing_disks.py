"""Disks that fail: a small one that gets full, and what one may hold after the power fails.

After the power fails a disk holds what was synced, and any part of what was not: a model of a POSIX file system at its
least obliging. The bytes of a file are sure to be there once the file was synced; a name, once its folder was. Each
folder that was not synced may be as it was at its last sync or as it is now.
"""

from __future__ import annotations

import os
import random
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.files.system_calls import REAL, Call


@dataclass(frozen=True)
class Instant:
    """What is sure to be on disk, and what is in memory, after one system call; files and folders by number."""

    contents: dict[int, bytes]
    synced_names: dict[int, dict[str, int]]
    names: dict[int, dict[str, int]]
    folders: frozenset[int]
    told: tuple[int, ...]


@dataclass
class Disk:
    """Sees the system calls of saves below ``root``; ``told`` are the steps whose save has returned."""

    root: Path
    told: list[int] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._contents: dict[int, bytes] = {}
        self._synced: dict[int, dict[str, int]] = {}
        self._kept: list[int] = []
        self._lock = threading.Lock()

    def __call__(self, name: str, real: Call, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        with self._lock:
            result = real(*args, **named)
            if name in ("fsync", "fdatasync"):
                self._sync(args[0])
            self._note()
            return result

    def forget(self) -> None:
        """Close what the model keeps open."""
        while self._kept:
            REAL["close"](self._kept.pop())

    def _sync(self, descriptor: int) -> None:
        status = REAL["fstat"](descriptor)
        if status.st_ino not in self._contents and status.st_ino not in self._synced:
            # While it is open its number is given to no other file.
            self._kept.append(os.dup(descriptor))
        if stat.S_ISDIR(status.st_mode):
            self._synced[status.st_ino] = _names(descriptor)
        else:
            self._contents[status.st_ino] = REAL["pread"](descriptor, status.st_size, 0) if status.st_size else b""

    def _note(self) -> None:
        names, folders = {}, set()
        waiting = [str(self.root)]
        while waiting:
            path = waiting.pop()
            number = REAL["stat"](path).st_ino
            folders.add(number)
            names[number] = _names(path)
            with os.scandir(path) as entries:
                waiting.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        self.instants.append(
            Instant(dict(self._contents), dict(self._synced), names, frozenset(folders), tuple(self.told))
        )


def restore(instant: Instant, number: int, target: Path, chance: random.Random | None, synced_only: bool) -> None:
    """Make ``target`` what folder ``number`` may be after the power failed at ``instant``.

    Folders are as they were last synced, or as they were in memory; with ``chance`` each as it falls.
    """
    target.mkdir(parents=True, exist_ok=True)
    old = synced_only if chance is None else chance.random() < 0.5
    names = instant.synced_names.get(number, {}) if old else instant.names.get(number, {})
    for name, child in names.items():
        if child in instant.folders:
            restore(instant, child, target / name, chance, synced_only)
        else:
            # The bytes of a file that was never synced may be missing altogether.
            (target / name).write_bytes(instant.contents.get(child, b""))


def _names(folder: int | str) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}


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
