"""The launcher's side of the control channel: it listens, and tells a registry what the ranks say."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.address import LOCAL, ControlAddress, own_addresses
from mpiparallel.launch.control.handshake import Handshake
from mpiparallel.launch.control.keepalive import keep_alive
from mpiparallel.launch.control.message import ALL_READY, READY, SIGNAL, WELCOME
from mpiparallel.launch.control.private_socket import PrivateSocket
from mpiparallel.launch.control.rank_connection import RankConnection
from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.job.rank_folder import Failure

_LOOPBACK = "127.0.0.1"
_TOKEN_BYTES = 32
_MOST_STRANGERS = 64
_MOST_AT_ONCE = 64
_STRANGER_SECONDS = 5.0
# One that has shown that it knows the token may be slow.
_GUEST_SECONDS = 60.0
_READ_BYTES = 65536
_BACKLOG = 4096
_CUT = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)


class ControlServer:
    """Listens for the ranks of one job until it is closed, which tells them that the launcher is gone.

    It listens within this machine alone unless the job ``spans_hosts``; there, the kernel keeps other users out. A
    process that calls must prove within some seconds that it knows the token, else its connection is closed. Until then
    nothing else that it says is read. Only a few such connections are kept at a time.
    """

    def __init__(self, registry: RankRegistry, spans_hosts: bool) -> None:
        self._registry = registry
        self._private: PrivateSocket | None = None
        self._listeners: list[socket.socket] = []
        self._strangers: list[RankConnection] = []
        self._guests: list[RankConnection] = []
        self._ranks: dict[int, RankConnection] = {}
        self._nonces: set[str] = set()
        self._held: list[int] = []
        self._due: list[int] = []
        self._selector = selectors.DefaultSelector()
        self.address = self._open(spans_hosts)

    def _open(self, spans_hosts: bool) -> ControlAddress:
        hosts: tuple[str, ...] = ()
        port = 0
        if sys.platform == "linux":
            # The kernel tells the end of such a connection at once; over TCP, on a busy machine, the death of a rank
            # was seen to be told after those that it caused.
            with suppress(OSError):
                self._private = PrivateSocket()
        if self._private is not None:
            hosts = (f"{LOCAL}{self._private.folder}",)
            self._listen_at(self._private.listener)
        if spans_hosts or not hosts:
            listener = _listener(spans_hosts)
            port = listener.getsockname()[1]
            self._listen_at(listener)
            hosts = (*hosts, *(own_addresses() if spans_hosts else (_LOOPBACK,)))
        return ControlAddress(hosts, port, os.urandom(_TOKEN_BYTES).hex())

    def _listen_at(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listeners.append(listener)
        self._selector.register(listener, selectors.EVENT_READ, listener)

    def __enter__(self) -> ControlServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def connected(self) -> frozenset[int]:
        """The ranks that are connected now."""
        return frozenset(self._ranks)

    def listen(self, seconds: float) -> None:
        """Tell the registry what ranks say, for at most ``seconds``; return sooner when something was said."""
        while self._due:
            number = self._due.pop(0)
            self._held.append(number)
            self._tell_all(SIGNAL, number=number)
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, RankConnection):
                self._read(key.data)
            else:
                self._accept(key.data)
        now = time.monotonic()
        for one in [one for one in self._strangers if now > one.since + _STRANGER_SECONDS]:
            self._hang_up(one)
        for one in [one for one in self._guests if now > one.since + _GUEST_SECONDS]:
            self._hang_up(one)

    def pass_signal(self, number: int) -> None:
        """Tell all ranks to take signal ``number``: those connected when `listen` is next, the others when they call.

        A handler of signals may call it, which can interrupt anything that is being said.
        """
        self._due.append(int(number))

    def close(self) -> None:
        """Hang up on all."""
        for connection in [*self._strangers, *self._guests, *self._ranks.values()]:
            connection.stream.close()
        self._ranks.clear()
        self._guests.clear()
        self._strangers.clear()
        for listener in self._listeners:
            listener.close()
        if self._private is not None:
            self._private.close()
        self._selector.close()

    def _tell_all(self, word: str, **fields: Any) -> None:
        for connection in list(self._ranks.values()):
            try:
                connection.tell(word, **fields)
            except OSError:
                self._hang_up(connection)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                stream, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # It has hung up already, or there are too many open files, of which strangers shall have none.
                if self._strangers:
                    self._hang_up(self._strangers[0])
                return
            self._admit(stream)

    def _admit(self, stream: socket.socket) -> None:
        try:
            stranger = RankConnection.admitted(stream)
        except OSError:
            stream.close()
            return
        self._selector.register(stream, selectors.EVENT_READ, stranger)
        self._strangers.append(stranger)
        # What a rank says first is mostly there already, so that no crowd behind it can push it out.
        self._read(stranger)
        if len(self._strangers) > _MOST_STRANGERS:
            self._hang_up(self._strangers[0])

    def _read(self, connection: RankConnection) -> None:
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

    def _hear(self, connection: RankConnection, message: Mapping[str, Any]) -> None:
        if connection.handshake is None:
            self._meet(connection, message)
        elif connection.rank is None:
            self._welcome(connection, connection.handshake, message)
        elif message["word"] == READY:
            if self._registry.be_ready(connection.rank):
                self._tell_all(ALL_READY)
        else:
            loss = LostOutput.parsed(message.get("lost"))
            self._registry.hear(connection.rank, message["word"], _failure(connection.rank, message), loss)

    def _meet(self, connection: RankConnection, message: Mapping[str, Any]) -> None:
        said = connection.identified(message, self.address.token, self._registry.size)
        if said.nonce in self._nonces:
            raise LaunchError("somebody repeats what a rank has said")
        self._nonces.add(said.nonce)
        connection.challenge(said, self.address.token)
        self._strangers.remove(connection)
        self._guests.append(connection)

    def _welcome(self, connection: RankConnection, handshake: Handshake, message: Mapping[str, Any]) -> None:
        connection.be_rank(handshake, message)
        self._guests.remove(connection)
        rank = handshake.rank
        earlier = self._ranks.pop(rank, None)
        if earlier:
            self._hang_up(earlier)
        has_called = self._registry.entries[rank].called_at is not None
        self._ranks[rank] = connection
        self._registry.call(rank, handshake.process, connection.host, connection.pid, connection.starter)
        keep_alive(connection.stream)
        connection.tell(WELCOME)
        for number in () if has_called else self._held:
            connection.tell(SIGNAL, number=number)

    def _hang_up(self, connection: RankConnection, is_unreachable: bool = False) -> None:
        if connection.stream.fileno() < 0:
            return
        self._selector.unregister(connection.stream)
        connection.stream.close()
        if connection in self._strangers:
            self._strangers.remove(connection)
        elif connection in self._guests:
            self._guests.remove(connection)
        elif connection.rank is not None and self._ranks.get(connection.rank) is connection:
            del self._ranks[connection.rank]
            self._registry.lose(connection.rank, is_unreachable)


def _listener(spans_hosts: bool) -> socket.socket:
    if not spans_hosts:
        return socket.create_server((_LOOPBACK, 0), backlog=_BACKLOG)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    return socket.create_server(("", 0), backlog=_BACKLOG)


def _failure(rank: int, message: Mapping[str, Any]) -> Failure | None:
    given = message.get("failure")
    return Failure.parsed(rank, given) if isinstance(given, dict) else None
