"""Where something is to be written that a user named: a regular file, or nothing yet."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

_KINDS = {
    stat.S_IFLNK: "a link; name the file that it leads to",
    stat.S_IFDIR: "a folder; name a file in it",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def check_output(path: Path) -> None:
    """Raise ``OSError`` where something is at ``path`` that is no regular file: root could replace a device by one.

    A link is not followed: it may lead to a device too, as /dev/stdout does. What has a NUL is no path.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "it has a NUL", str(path))
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'no regular file')}", str(path))
