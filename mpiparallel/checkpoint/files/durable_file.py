"""Files that hold either all of the old content or all of the new, whatever happens in between."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mpiparallel.checkpoint.files.output_path import check_output

PARTIAL_PREFIX = ".partial-"
_RANDOM_BYTES = 8
_BY_UMASK = 0o666


@contextmanager
def replacing(path: Path, mode: int = _BY_UMASK) -> Iterator[int]:
    """Give the descriptor of a new file, which takes the place of the regular file ``path`` when the body ends well.

    It is then on disk, not only in memory. If the body or the disk fails, ``path`` is as it was and nothing else is
    left behind. Only a killed process leaves a file, whose name starts with ``PARTIAL_PREFIX``. The new file may be
    used as ``mode`` says, less what the process's umask takes. Raises ``OSError``, also where ``path`` is no regular
    file.
    """
    check_output(path)
    descriptor, temporary = _new_file(path.parent, mode)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _new_file(folder: Path, mode: int) -> tuple[int, Path]:
    # The kernel applies the umask: to ask for it is to set it, for all threads, and mkstemp's mode is always 0600.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        path = folder / f"{PARTIAL_PREFIX}{os.urandom(_RANDOM_BYTES).hex()}"
        with suppress(FileExistsError):
            return os.open(path, flags, mode), path


def write_durably(path: Path, content: bytes, mode: int = _BY_UMASK) -> None:
    """Replace what is in ``path`` by ``content``; see ``replacing``. Raises ``OSError``."""
    with replacing(path, mode) as descriptor:
        write_at(descriptor, memoryview(content), 0)


def write_at(descriptor: int, content: memoryview, offset: int) -> None:
    """Write all bytes of ``content`` at ``offset``. Raises ``OSError``."""
    while content.nbytes:
        written = os.pwrite(descriptor, content, offset)
        if not written:
            raise OSError(errno.EIO, f"nothing of {content.nbytes} bytes was written")
        content, offset = content[written:], offset + written


def sync_folder(folder: Path) -> None:
    """Wait until the names in ``folder`` are on disk. Raises ``OSError`` that names it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, so that their names are on disk; others may do so meanwhile.

    Raises ``OSError``.
    """
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def clear_partial(folder: Path) -> None:
    """Delete what killed writers have left in ``folder``, where nobody else writes now. Raises ``OSError``."""
    for partial in folder.glob(f"{PARTIAL_PREFIX}*"):
        partial.unlink(missing_ok=True)


def remove_irregular(path: Path) -> None:
    """Delete a link, pipe or the like at ``path``, where only files of ours belong. Raises ``OSError``."""
    with suppress(FileNotFoundError):
        kind = path.lstat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            path.unlink()
