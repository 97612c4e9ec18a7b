"""The launcher's side of the line: it listens, and tells a roll what the ranks say."""

from __future__ import annotations

import errno
import hmac
import os
import selectors
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.rank_folder import Failure
from mpiparallel.launch.line.address import LOCAL, LineAddress, own_addresses
from mpiparallel.launch.line.keepalive import keep_alive
from mpiparallel.launch.line.message import ALL_READY, HELLO, LONGEST, READY, SIGNAL, WELCOME, Inbox, encode
from mpiparallel.launch.line.roll import Roll

_LOOPBACK = "127.0.0.1"
_TOKEN_BYTES = 16
_NAME_BYTES = 8
_MOST_STRANGERS = 64
_STRANGER_SECONDS = 5.0
_LONGEST_HELLO = 4096
_READ_BYTES = 65536
_BACKLOG = 4096
_CUT = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)


@dataclass(eq=False, slots=True)
class _Connection:
    """One that called: a stranger until it has given the token, then a rank."""

    stream: socket.socket
    since: float
    rank: int | None = None
    inbox: Inbox = field(default_factory=lambda: Inbox(_LONGEST_HELLO))


class Exchange:
    """Listens for the ranks of one job until it is closed, which tells them that the launcher is gone.

    It listens within this machine alone unless the job ``spans_hosts``. Who does not give the token within some seconds
    is hung up on, and of such strangers few are kept at a time.
    """

    def __init__(self, roll: Roll, spans_hosts: bool) -> None:
        self._roll = roll
        self._listeners: list[socket.socket] = []
        self._strangers: list[_Connection] = []
        self._ranks: dict[int, _Connection] = {}
        self._held: list[int] = []
        self._selector = selectors.DefaultSelector()
        self.address = self._open(spans_hosts)

    def _open(self, spans_hosts: bool) -> LineAddress:
        hosts: tuple[str, ...] = ()
        port = 0
        if sys.platform == "linux":
            # The kernel tells the end of such a connection at once; over TCP, on a busy machine, the death of a rank
            # was seen to be told after those that it caused.
            name = f"mpiparallel-{os.urandom(_NAME_BYTES).hex()}"
            hosts = (f"{LOCAL}{name}",)
            self._listen_at(_local_listener(name))
        if spans_hosts or not hosts:
            listener = _listener(spans_hosts)
            port = listener.getsockname()[1]
            self._listen_at(listener)
            hosts = (*hosts, *(own_addresses() if spans_hosts else (_LOOPBACK,)))
        return LineAddress(hosts, port, os.urandom(_TOKEN_BYTES).hex())

    def _listen_at(self, listener: socket.socket) -> None:
        self._listeners.append(listener)
        self._selector.register(listener, selectors.EVENT_READ, listener)

    def __enter__(self) -> Exchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def connected(self) -> frozenset[int]:
        """The ranks that are on the line now."""
        return frozenset(self._ranks)

    def listen(self, seconds: float) -> None:
        """Tell the roll what ranks say, for at most ``seconds``; return sooner when something was said."""
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, _Connection):
                self._read(key.data)
            else:
                self._accept(key.data)
        for stranger in [one for one in self._strangers if time.monotonic() > one.since + _STRANGER_SECONDS]:
            self._hang_up(stranger)

    def pass_signal(self, number: int) -> None:
        """Tell all ranks to take signal ``number``: those on the line now, the others when they call."""
        self._held.append(int(number))
        self._tell_all(encode(SIGNAL, number=int(number)))

    def close(self) -> None:
        """Hang up on all."""
        for connection in [*self._strangers, *self._ranks.values()]:
            connection.stream.close()
        self._ranks.clear()
        self._strangers.clear()
        for listener in self._listeners:
            listener.close()
        self._selector.close()

    def _tell_all(self, content: bytes) -> None:
        for connection in self._ranks.values():
            with suppress(OSError):
                connection.stream.send(content)

    def _accept(self, listener: socket.socket) -> None:
        try:
            stream, _ = listener.accept()
        except OSError:
            # It has hung up already, or there are too many open files; its files tell how the rank ended.
            return
        stream.setblocking(False)
        stranger = _Connection(stream, time.monotonic())
        self._selector.register(stream, selectors.EVENT_READ, stranger)
        self._strangers.append(stranger)
        if len(self._strangers) > _MOST_STRANGERS:
            self._hang_up(self._strangers[0])

    def _read(self, connection: _Connection) -> None:
        if connection.stream.fileno() < 0:
            # Hung up on since it was seen to have something to say.
            return
        try:
            content = connection.stream.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._hang_up(connection, error.errno in _CUT)
            return
        if not content:
            self._hang_up(connection)
            return
        try:
            for message in connection.inbox.add(content):
                self._hear(connection, message)
        except (LaunchError, OSError):
            self._hang_up(connection)

    def _hear(self, connection: _Connection, message: Mapping[str, Any]) -> None:
        if connection.rank is None:
            self._welcome(connection, message)
        elif message["word"] == READY:
            if self._roll.be_ready(connection.rank):
                self._tell_all(encode(ALL_READY))
        else:
            self._roll.hear(connection.rank, message["word"], _failure(connection.rank, message))

    def _welcome(self, connection: _Connection, message: Mapping[str, Any]) -> None:
        token, rank, process = message.get("token"), message.get("rank"), message.get("process")
        if message["word"] != HELLO or not hmac.compare_digest(
            str(token).encode(errors="replace"), self.address.token.encode()
        ):
            raise LaunchError("a stranger called")
        if not (_is_rank(rank, self._roll.size) and _is_rank(process, self._roll.size)):
            raise LaunchError("a rank of another job called")
        keep_alive(connection.stream)
        connection.stream.send(encode(WELCOME))
        connection.rank = int(str(rank))
        connection.inbox.longest = LONGEST
        self._strangers.remove(connection)
        earlier = self._ranks.pop(connection.rank, None)
        if earlier:
            self._hang_up(earlier)
        if self._roll.entries[connection.rank].called_at is None:
            for number in self._held:
                connection.stream.send(encode(SIGNAL, number=number))
        self._ranks[connection.rank] = connection
        self._roll.call(connection.rank, int(str(process)), str(message.get("host"))[:255], message.get("pid"))

    def _hang_up(self, connection: _Connection, is_unreachable: bool = False) -> None:
        self._selector.unregister(connection.stream)
        connection.stream.close()
        if connection.rank is None:
            self._strangers.remove(connection)
        elif self._ranks.get(connection.rank) is connection:
            del self._ranks[connection.rank]
            self._roll.lose(connection.rank, is_unreachable)


def _local_listener(name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen(_BACKLOG)
    return listener


def _listener(spans_hosts: bool) -> socket.socket:
    if not spans_hosts:
        return socket.create_server((_LOOPBACK, 0), backlog=_BACKLOG)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    return socket.create_server(("", 0), backlog=_BACKLOG)


def _is_rank(value: object, size: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size


def _failure(rank: int, message: Mapping[str, Any]) -> Failure | None:
    given = message.get("failure")
    return Failure.parsed(rank, given) if isinstance(given, dict) else None
