"""The rank's side of the line."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from mpiparallel.errors import LaunchError
from mpiparallel.launch.line.address import LineAddress, connect
from mpiparallel.launch.line.keepalive import keep_alive
from mpiparallel.launch.line.message import ALL_READY, HELLO, READY, SIGNAL, WELCOME, Inbox, encode

_CONNECT_SECONDS = 3.0
_TRYING_SECONDS = 10.0
_NAP_SECONDS = 0.2
_READ_BYTES = 65536
_HIGH_NUMBER = 960


class Caller:
    """Calls the launcher from a thread of its own, so that the script starts meanwhile, and listens to it.

    ``on_lost`` is called in that thread when the launcher is gone, also where a launcher of this machine is gone
    already; ``on_unreachable`` with the reason when it could never be reached: then `say` does nothing, and the rank's
    files alone tell how it ended.
    """

    def __init__(
        self,
        address: LineAddress,
        about: Mapping[str, Any],
        on_lost: Callable[[], None],
        on_unreachable: Callable[[str], None],
    ) -> None:
        self._address = address
        self._about = about
        self._on_lost = on_lost
        self._on_unreachable = on_unreachable
        self._connection: socket.socket | None = None
        self._settled = threading.Event()
        self._all_are_ready = threading.Event()
        self._sending = threading.Lock()
        # A child of a fork that kept the connection open would hide the death of this rank.
        os.register_at_fork(after_in_child=self._leave)
        threading.Thread(target=self._serve, name="line to the launcher", daemon=True).start()

    def say(self, word: str, **fields: Any) -> None:
        """Say ``word`` to the launcher, after waiting for the connection if it is not there yet."""
        self._settled.wait(_TRYING_SECONDS)
        with self._sending:
            if self._connection is not None:
                try:
                    self._connection.sendall(encode(word, **fields))
                except OSError:
                    # The thread that listens sees the same, and says so.
                    return

    def wait_until_all_are_ready(self) -> None:
        """Tell the launcher that this rank is ready, and return when all are."""
        self.say(READY)
        self._all_are_ready.wait()

    def _serve(self) -> None:
        inbox = Inbox()
        connection = self._call(inbox)
        if connection is None:
            return
        while content := _read(connection):
            try:
                for message in inbox.add(content):
                    self._obey(message)
            except LaunchError:
                break
        self._on_lost()

    def _call(self, inbox: Inbox) -> socket.socket | None:
        """Return a connection whose other end has proven to be the launcher, or None after some time."""
        deadline = time.monotonic() + _TRYING_SECONDS
        reason = "no address"
        while time.monotonic() < deadline:
            for host in self._address.hosts:
                try:
                    self._connection = _closed_first(self._greet(host, inbox))
                except ConnectionRefusedError as error:
                    if self._address.is_local:
                        # It listened before this rank was started: it has died since.
                        self._on_lost()
                        return None
                    reason = f"{host}: {error}"
                    continue
                except (OSError, LaunchError) as error:
                    reason = f"{host}: {error}"
                    continue
                self._settled.set()
                return self._connection
            time.sleep(_NAP_SECONDS)
        self._settled.set()
        self._on_unreachable(reason)
        return None

    def _greet(self, host: str, inbox: Inbox) -> socket.socket:
        connection = connect(host, self._address.port, _CONNECT_SECONDS)
        try:
            keep_alive(connection)
            connection.sendall(encode(HELLO, token=self._address.token, **self._about))
            # Another program may listen there: only the launcher welcomes.
            messages = list(inbox.add(connection.recv(_READ_BYTES)))
            if not messages or messages[0]["word"] != WELCOME:
                raise LaunchError("what listens there is not the launcher")
            for message in messages:
                self._obey(message)
            connection.settimeout(None)
        except BaseException:
            connection.close()
            raise
        return connection

    def _obey(self, message: Mapping[str, Any]) -> None:
        if message["word"] == SIGNAL and isinstance(message.get("number"), int):
            os.kill(os.getpid(), signal.Signals(message["number"]))
        elif message["word"] == ALL_READY:
            self._all_are_ready.set()

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _closed_first(connection: socket.socket) -> socket.socket:
    """Return ``connection`` under a high number: of a dying process Linux closes the files of high numbers first.

    MPICH's launcher kills the other ranks as soon as it sees its own connection closed, and on a busy machine they were
    gone before the line of the first one was.
    """
    try:
        number = fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, _HIGH_NUMBER)
    except OSError:
        # The limit of open files is lower.
        return connection
    connection.close()
    return socket.socket(fileno=number)


def _read(connection: socket.socket) -> bytes:
    """Return what comes next; nothing when the other side is gone."""
    try:
        return connection.recv(_READ_BYTES)
    except OSError:
        return b""
