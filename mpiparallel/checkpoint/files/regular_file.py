"""Opening files that others may have put there: regular ones only, never through a link, never waiting."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from mpiparallel.errors import CheckpointError


def open_regular(path: Path) -> int:
    """Return the descriptor of the regular file ``path``, open for reading.

    Raises ``CheckpointError`` where it is a link, a folder, a pipe or a device, ``OSError`` where it cannot be opened.
    """
    try:
        # Without O_NONBLOCK, to open a pipe that nobody writes to would never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CheckpointError(f"{path}: is a link, which is not followed; put the file itself there") from error
        raise
    except ValueError as error:  # a path with a NUL
        raise CheckpointError(f"{str(path)!r}: is no path of a file ({error})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CheckpointError(f"{path}: is no regular file; put a file there")
    return descriptor


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the content of the regular file ``path``.

    Raises ``CheckpointError`` where it is none or is longer than ``most_bytes``, ``OSError`` where it cannot be read.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        length = os.fstat(file.fileno()).st_size
        if length > most_bytes:
            raise CheckpointError(f"{path}: has {length} bytes, more than the {most_bytes} that it may have")
        return file.read(length + 1)


def from_root(path: str | Path) -> Path:
    """Return ``path`` from the root on, without ``.`` and ``..``; links are not resolved, which may differ by host.

    >>> from_root("/saved/./other/../ckpt_0")
    PosixPath('/saved/ckpt_0')
    """
    return Path(os.path.normpath(Path.cwd() / path))


def check_folder(path: Path) -> None:
    """Raise ``CheckpointError`` where ``path`` is a link or no folder: what lies behind it may be anywhere."""
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read as a folder ({error})") from error
    if not stat.S_ISDIR(mode):
        raise CheckpointError(f"{path}: is a link or no folder; links are not followed: put the folder itself there")
