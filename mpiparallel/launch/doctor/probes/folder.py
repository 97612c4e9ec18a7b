"""Try in the folder that the argument names what logs and checkpoints need, and print it as JSON, line by line.

A folder that is not there yet is tried in the nearest one above it that is.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Measure room, write, make durable, rename, lock; print what came of each."""
    folder = Path(sys.argv[1]).absolute()
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    room = os.statvfs(folder)
    _say(folder=str(folder), free=room.f_bavail * room.f_frsize, size=room.f_blocks * room.f_frsize)
    _say(files=room.f_favail, has_file_count=room.f_files > 0)
    try:
        with tempfile.TemporaryDirectory(prefix=".mpiparallel_doctor_", dir=folder) as scratch:
            _write(Path(scratch))
            _lock(Path(scratch) / "locked")
    except OSError as error:
        _say(failure=f"{error.strerror} ({Path(str(error.filename)).name})" if error.filename else str(error.strerror))


def _write(scratch: Path) -> None:
    start = time.monotonic()
    before = time.time()
    with (scratch / "written").open("wb") as file:
        file.write(b"0" * 4096)
        file.flush()
        os.fsync(file.fileno())
    after = time.time()
    (scratch / "written").rename(scratch / "renamed")
    _say(seconds=time.monotonic() - start)
    stamp = (scratch / "renamed").stat().st_mtime
    _say(skew=stamp - before if stamp < before else max(stamp - after, 0.0))


def _lock(path: Path) -> None:
    with path.open("wb") as first, path.open("wb") as second:
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            _say(lock=str(error.strerror))
            return
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(lock="")
        else:
            _say(lock="two processes get the same lock")


def _say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()
