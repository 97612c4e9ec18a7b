"""Where a process that was started by hand waits, and what is said there.

It is a socket in Linux's abstract namespace: it has no file, so nothing is left when its process dies, and it reaches
one machine only. Each end looks at the user of the other.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpiparallel.errors import LaunchError

STAND_IN, IDENTITY, REFUSAL, CONFLICT = "stand-in", "identity", "refusal", "conflict"
"""What is said to the process: that its stand-in has come; who it is for MPI; that the job cannot be; that another
process claims to be the same rank."""
ENDED, FAILED = "ended", "failed"
"""What the process says at its end."""

_LONGEST = 192 * 1024
_MOST_FILES = 8
_BACKLOG = 16
_LISTED = Path("/proc/net/unix")
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its word, its fields, and open files that came with it."""

    word: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[int] = ()


def listen(digest: str, rank: int) -> socket.socket:
    """Return a socket on which rank ``rank`` of the job ``digest`` waits; raise OSError where one waits already."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(f"\0{_name(digest, rank)}")
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def call(digest: str, rank: int) -> socket.socket:
    """Return a connection to the process that waits as rank ``rank``; OSError where none of this user does."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(f"\0{_name(digest, rank)}")
        if not is_own(connection):
            raise PermissionError("a process of another user waits there")
    except OSError:
        connection.close()
        raise
    return connection


def waiting(digest: str, ranks: Iterable[int]) -> frozenset[int]:
    """Return which of ``ranks`` wait on this machine now."""
    names = {f"@{_name(digest, rank)}": rank for rank in ranks}
    lines = _LISTED.read_text(errors="replace").splitlines()
    return frozenset(names[name] for line in lines if (name := line.rpartition(" ")[2]) in names)


def is_own(connection: socket.socket) -> bool:
    """Tell whether the process at the other end is of this user."""
    return _peer(connection)[1] == os.geteuid()


def process_of(connection: socket.socket) -> int:
    """Return the number of the process at the other end."""
    return _peer(connection)[0]


def send(connection: socket.socket, word: str, files: Sequence[int] = (), **fields: Any) -> None:
    """Say ``word`` with its fields, and hand over open files."""
    content = json.dumps({"word": word, **fields}).encode()
    if files:
        socket.send_fds(connection, [content], list(files))
    else:
        connection.send(content)


def receive(connection: socket.socket) -> Message | None:
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
        return Message(str(fields.pop("word")), fields, tuple(files))
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise LaunchError("what came from the process that starts the job is no message") from error


def _name(digest: str, rank: int) -> str:
    return f"mpiparallel-rank-{os.geteuid()}-{digest}-{rank}"


def _peer(connection: socket.socket) -> tuple[int, int]:
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(told)
    return process, user
