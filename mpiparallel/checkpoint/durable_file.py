"""Files that hold either all of the old content or all of the new, whatever happens in between."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL_PREFIX = ".partial-"


@contextmanager
def replacing(path: Path) -> Iterator[int]:
    """Give the descriptor of a new file of mode 0600, which takes the place of ``path`` when the body ends well.

    It is then on disk, not only in memory. If the body or the disk fails, ``path`` is as it was and nothing else is
    left behind; only a killed process leaves a file whose name starts with ``PARTIAL_PREFIX``. Raises ``OSError``.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=PARTIAL_PREFIX, dir=path.parent)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Replace what is in ``path`` by ``content``. Raises ``OSError``."""
    with replacing(path) as descriptor:
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
