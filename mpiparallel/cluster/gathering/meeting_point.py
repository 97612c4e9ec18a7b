"""Where a process that was started by hand waits, and what is said there.

It is a socket in Linux's abstract namespace. It has no file, so nothing is left when its process dies. It reaches one
machine only. Any user may own a name there. So each name has a random end, which nobody can take first, and is found in
the kernel's list. Each side asks the kernel for the user of the other before it sends or reads anything.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError

STAND_IN, IDENTITY, REFUSAL, CONFLICT = "stand-in", "identity", "refusal", "conflict"
"""What is said to the process: that its stand-in has come, or who it is for MPI.

Else it hears that the job cannot be, or that another process claims to be the same rank.
"""
ENDED, FAILED = "ended", "failed"
"""What the process says at its end."""

_LONGEST = 192 * 1024
_MOST_FILES = 8
_BACKLOG = 128
_RANDOM_BYTES = 8
_LISTED = Path("/proc/net/unix")
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class GatheringMessage:
    """One message: its word, its fields, and open files that came with it."""

    word: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[int] = ()


def listen(digest: str, rank: int) -> socket.socket:
    """Return a socket on which rank ``rank`` of the job ``digest`` waits; several may."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(f"\0{_beginning(digest, rank)}{os.urandom(_RANDOM_BYTES).hex()}")
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def call(digest: str, rank: int, besides: socket.socket | None = None) -> socket.socket:
    """Return a connection to a process of this user that waits as ``rank``, not at ``besides``; OSError without one."""
    own = "" if besides is None else _listed_name(besides)
    for name in sorted(_listed({rank: _beginning(digest, rank)})[rank] - {own}):
        with suppress(OSError):
            return _call(name)
    raise ConnectionRefusedError(f"no process of this user waits as rank {rank}")


class Lookout:
    """Sees which ranks of the job ``digest`` wait on this machine; of a name it asks once whose it is."""

    def __init__(self, digest: str) -> None:
        self._digest = digest
        self._are_own: dict[str, bool] = {}

    def waiting(self, ranks: Iterable[int]) -> frozenset[int]:
        """Return which of ``ranks`` wait now, by processes of this user."""
        listed = _listed({rank: _beginning(self._digest, rank) for rank in ranks})
        names = frozenset().union(*listed.values())
        self._are_own = {name: is_own for name, is_own in self._are_own.items() if name in names}
        return frozenset(rank for rank, found in listed.items() if any(map(self._is_own, found)))

    def _is_own(self, name: str) -> bool:
        if name not in self._are_own:
            try:
                _call(name).close()
            except (BlockingIOError, ConnectionRefusedError):
                # Too many call it at a time, or it has its name and does not listen yet: nothing is known of it.
                return False
            except OSError:
                self._are_own[name] = False
            else:
                self._are_own[name] = True
        return self._are_own[name]


def _call(name: str) -> socket.socket:
    """Return a connection to ``name``, without waiting for whoever owns it; OSError where that is another user's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.setblocking(False)
        connection.connect(f"\0{name}")
        if not is_own(connection):
            raise PermissionError("a process of another user waits there")
        connection.setblocking(True)
    except OSError:
        connection.close()
        raise
    return connection


def _listed(beginnings: Mapping[int, str]) -> dict[int, frozenset[str]]:
    """Return the names that the kernel lists now, for each rank those with its beginning."""
    lines = _LISTED.read_text(errors="replace").splitlines()
    found: dict[str, set[str]] = {}
    for line in lines:
        name = line.rpartition(" @")[2]
        beginning = name[: -2 * _RANDOM_BYTES]
        found.setdefault(beginning, set()).add(name)
    return {rank: frozenset(found.get(beginning, ())) for rank, beginning in beginnings.items()}


def _listed_name(listener: socket.socket) -> str:
    return os.fsdecode(listener.getsockname()[1:])


def is_own(connection: socket.socket) -> bool:
    """Tell whether the process at the other end is of this user."""
    return _peer(connection)[1] == os.geteuid()


def process_of(connection: socket.socket) -> int:
    """Return the number of the process at the other end."""
    return _peer(connection)[0]


def send(connection: socket.socket, word: str, files: Sequence[int] = (), **fields: Any) -> None:
    """Say ``word`` with its fields, and hand over open files."""
    # Variables may hold bytes that are no UTF-8. A letter takes four bytes at most, where an escape takes twelve.
    content = json.dumps({"word": word, **fields}, ensure_ascii=False).encode(errors="surrogatepass")
    if files:
        socket.send_fds(connection, [content], list(files))
    else:
        connection.send(content)


def receive(connection: socket.socket) -> GatheringMessage | None:
    """Return the next message, None where the other end is gone. Raises LaunchError for what is no message."""
    try:
        content, files, _, _ = socket.recv_fds(connection, _LONGEST, _MOST_FILES)
    except ConnectionError:
        return None
    if not content:
        return None
    for number in files:
        os.set_inheritable(number, False)
    try:
        fields = json.loads(content)
        return GatheringMessage(str(fields.pop("word")), fields, tuple(files))
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise LaunchError("what came from the process that starts the job is no message") from error


def _beginning(digest: str, rank: int) -> str:
    return f"mpiparallel-rank-{os.geteuid()}-{digest}-{rank}-"


def _peer(connection: socket.socket) -> tuple[int, int]:
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(told)
    return process, user
