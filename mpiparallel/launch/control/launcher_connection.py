"""The rank's end of the control channel: a connection to what has proven to be its launcher."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.address import ControlAddress, connect, place_of
from mpiparallel.launch.control.handshake import Handshake
from mpiparallel.launch.control.keepalive import keep_alive
from mpiparallel.launch.control.message import (
    ANSWER,
    CHALLENGE,
    HELLO,
    LAUNCHER,
    LONGEST,
    LONGEST_OF_STRANGER,
    RANK,
    WELCOME,
    Inbox,
    encode,
    encode_sealed,
)
from mpiparallel.launch.control.seal import Seal

_CONNECT_SECONDS = 3.0
# The launcher itself has proven to be there, and may be busy.
_WELCOME_SECONDS = 60.0
_READ_BYTES = 65536
_HIGH_NUMBER = 960


class LauncherConnection:
    """Sends and hears sealed messages; made by `greeted`."""

    def __init__(self, connection: socket.socket, inbox: Inbox, seal: Seal) -> None:
        self._connection = connection
        self._file = _file_of(connection)
        self._inbox = inbox
        self._seal = seal

    @classmethod
    def greeted(cls, address: ControlAddress, host: str, about: Mapping[str, Any]) -> LauncherConnection:
        """Return a connection to ``host``, the launcher's; OSError or LaunchError where that does not listen there."""
        connection = connect(host, address.port, _CONNECT_SECONDS)
        try:
            keep_alive(connection)
            inbox, seal = _after_handshake(connection, address.token, about)
            connection.settimeout(None)
            return cls(_closed_first(connection), inbox, seal)
        except BaseException:
            connection.close()
            raise

    def say(self, word: str, **fields: Any) -> None:
        """Send a message; raise OSError where the launcher is gone."""
        self._connection.sendall(encode_sealed(self._seal, word, **fields))

    def heard(self) -> Iterator[Mapping[str, Any]]:
        """Yield what the launcher says until it is gone; raise LaunchError for what it has not said."""
        yield from self._inbox.add(b"")
        while content := self._read():
            yield from self._inbox.add(content)

    @property
    def is_taken(self) -> bool:
        """Whether the script has closed this connection, as daemons do with all descriptors that they find."""
        return _file_of(self._connection) != self._file

    def forget(self) -> None:
        """Leave the number of the connection, which may be another file's by now, alone."""
        self._connection.detach()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _read(self) -> bytes:
        try:
            return self._connection.recv(_READ_BYTES)
        except OSError:
            return b""


def _file_of(connection: socket.socket) -> tuple[int, int] | None:
    """Return what the kernel knows the file behind a connection by, None where its descriptor is closed."""
    try:
        status = os.fstat(connection.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _after_handshake(connection: socket.socket, token: str, about: Mapping[str, Any]) -> tuple[Inbox, Seal]:
    """Return what hears the launcher and the seal of this rank, after each has proven to the other who it is."""
    inbox = Inbox(LONGEST_OF_STRANGER)
    rank, process = about["rank"], about["process"]
    handshake = Handshake.of(rank, process, place_of(connection, connection.getpeername()))
    proof = handshake.proof(token, HELLO)
    connection.sendall(encode(HELLO, rank=rank, process=process, nonce=handshake.nonce, proof=proof))
    challenge = _next_message(connection, inbox, _CONNECT_SECONDS)
    handshake = handshake.answered(challenge.get("nonce", ""))
    if challenge["word"] != CHALLENGE or not handshake.is_proven(token, CHALLENGE, challenge.get("proof")):
        raise LaunchError("what listens there is not the launcher")
    inbox.seal, inbox.longest = handshake.seal(token, LAUNCHER), LONGEST
    seal = handshake.seal(token, RANK)
    connection.sendall(encode_sealed(seal, ANSWER, pid=about["pid"], starter=about.get("starter"), host=about["host"]))
    if _next_message(connection, inbox, _WELCOME_SECONDS)["word"] != WELCOME:
        raise LaunchError("the launcher did not welcome this rank")
    return inbox, seal


def _next_message(connection: socket.socket, inbox: Inbox, seconds: float) -> Mapping[str, Any]:
    deadline = time.monotonic() + seconds
    content = b""
    while True:
        # What comes behind the first stays in the inbox.
        for message in inbox.add(content):
            return message
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        content = connection.recv(_READ_BYTES)
        if not content or time.monotonic() > deadline:
            raise LaunchError("what listens there does not answer")


def _closed_first(connection: socket.socket) -> socket.socket:
    """Return ``connection`` under a high number: of a dying process Linux closes the files of high numbers first.

    MPICH's launcher kills the other ranks as soon as it sees its own connection closed. On a busy machine they were
    gone before this connection of the first rank was closed.
    """
    try:
        number = fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, _HIGH_NUMBER)
    except OSError:
        # The limit of open files is lower.
        return connection
    connection.close()
    return socket.socket(fileno=number)
