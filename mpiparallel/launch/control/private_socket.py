"""A socket that only processes of this user, on this host, can call or own: a file in a folder closed to others."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "mpiparallel-line-"
_NAME = "line"
_BACKLOG = 4096
_CREDENTIALS = struct.Struct("3i")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_TRIES = 10


class PrivateSocket:
    """The launcher's end, until ``close``, which leaves nothing; raises OSError where no folder can be made.

    What launchers that were killed have left is removed first: they no longer hold the lock of their folder.
    """

    def __init__(self) -> None:
        temporary = Path(tempfile.gettempdir())
        _remove_left(temporary)
        self.folder, self._lock = _locked_folder(temporary)
        self.listener = socket.socket(socket.AF_UNIX)
        try:
            self.listener.bind(_path_in(self._lock))
            self.listener.listen(_BACKLOG)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Hear nobody any more, and remove the folder."""
        self.listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def connect_privately(folder: str, seconds: float) -> socket.socket:
    """Return a connection to the launcher whose folder this is; raise OSError where there is none of this user.

    On another host somebody else may own a folder of that name: nothing is sent there, and nothing is waited for.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(seconds)
        with _entered(folder) as number:
            connection.connect(_path_in(number))
        if not is_own(connection):
            raise PermissionError("a process of another user listens there")
    except OSError:
        connection.close()
        raise
    return connection


def is_own(connection: socket.socket) -> bool:
    """Tell whether the process at the other end is of this user; the kernel says so."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(told)[1] == os.geteuid())


@contextmanager
def _entered(folder: str) -> Iterator[int]:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(number)
        if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
            raise PermissionError(f"{folder} is not closed to other users")
        yield number
    finally:
        os.close(number)


def _path_in(number: int) -> str:
    # The path of a socket has at most 107 bytes; that of a folder for temporary files may have more.
    return f"/proc/self/fd/{number}/{_NAME}"


def _locked_folder(temporary: Path) -> tuple[Path, int]:
    """Return a new folder, and it opened and locked."""
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=temporary))
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(BlockingIOError):
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(number).st_nlink:
                return folder, number
        # Another launcher took it for one that is left, between the two calls.
        os.close(number)
    raise FileNotFoundError(f"new folders in {temporary} vanish")


def _remove_left(temporary: Path) -> None:
    with suppress(OSError):
        for folder in temporary.glob(f"{_PREFIX}*"):
            # It may be another user's, or one that its launcher is just removing.
            with suppress(OSError), _entered(str(folder)) as number:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
