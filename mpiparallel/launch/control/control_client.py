"""The rank's side of the control channel."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from mpiparallel.cluster.preemption_signal import FIT_SIGNALS
from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.address import ControlAddress
from mpiparallel.launch.control.launcher_connection import LauncherConnection
from mpiparallel.launch.control.message import ALL_READY, READY, SIGNAL

_TRYING_SECONDS = 10.0
_NAP_SECONDS = 0.2


class ControlClient:
    """Calls the launcher from a thread of its own, so that the script starts meanwhile, and listens to it.

    ``about`` says which ``rank`` this is, its ``process`` for mpirun, its ``host``, and its ``pid``. ``on_lost`` is
    called in that thread when the launcher is gone, also where a launcher of this machine is gone already. If it could
    never be reached, ``on_unreachable`` is called with the reason. Then `say` does nothing, and the rank's files alone
    tell how it ended. Whatever listens at the launcher's address must first prove that it knows the token. After that,
    only messages with its seal count.
    """

    def __init__(
        self,
        address: ControlAddress,
        about: Mapping[str, Any],
        on_lost: Callable[[], None],
        on_unreachable: Callable[[str], None],
    ) -> None:
        self._address = address
        self._about = about
        self._on_lost = on_lost
        self._on_unreachable = on_unreachable
        self._connection: LauncherConnection | None = None
        self._settled = threading.Event()
        self._all_are_ready = threading.Event()
        self._sending = threading.Lock()
        # A child of a fork that kept the connection open would hide the death of this rank.
        os.register_at_fork(after_in_child=self._leave)
        threading.Thread(target=self._serve, name="control channel", daemon=True).start()

    def say(self, word: str, **fields: Any) -> None:
        """Say ``word`` to the launcher, after waiting for the connection if it is not there yet."""
        self._settled.wait(_TRYING_SECONDS)
        with self._sending:
            if self._connection is not None:
                try:
                    self._connection = self._kept(self._connection)
                    self._connection.say(word, **fields)
                except (OSError, LaunchError):
                    # The thread that listens sees the same, and says so.
                    return

    def wait_until_all_are_ready(self) -> None:
        """Tell the launcher that this rank is ready, and return when all are."""
        self.say(READY)
        self._all_are_ready.wait()

    def _serve(self) -> None:
        connection = self._reach()
        if connection is None:
            return
        while connection is not None:
            with suppress(LaunchError):
                for message in connection.heard():
                    self._obey(message)
            connection = self._replacement(connection)
        self._on_lost()

    def _replacement(self, ended: LauncherConnection) -> LauncherConnection | None:
        """Return the connection in place of one that the script has closed, None where the launcher has ended it."""
        with self._sending, suppress(OSError, LaunchError):
            if self._connection is ended:
                self._connection = self._kept(ended)
        return None if self._connection is ended else self._connection

    def _kept(self, connection: LauncherConnection) -> LauncherConnection:
        """Return ``connection``, or another one where the script has closed it."""
        if not connection.is_taken:
            return connection
        connection.forget()
        for host in self._address.nearest_first:
            with suppress(OSError, LaunchError):
                return LauncherConnection.greeted(self._address, host, self._about)
        raise LaunchError("the launcher cannot be reached again")

    def _reach(self) -> LauncherConnection | None:
        """Return a connection whose other end has proven to be the launcher, or None after some time."""
        deadline = time.monotonic() + _TRYING_SECONDS
        reason = "no address"
        hosts = self._address.nearest_first
        while time.monotonic() < deadline:
            for host in hosts:
                try:
                    self._connection = LauncherConnection.greeted(self._address, host, self._about)
                except (ConnectionRefusedError, FileNotFoundError) as error:
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

    def _obey(self, message: Mapping[str, Any]) -> None:
        number = message.get("number")
        if message["word"] == SIGNAL and type(number) is int and number in FIT_SIGNALS:
            os.kill(os.getpid(), number)
        elif message["word"] == ALL_READY:
            self._all_are_ready.set()

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
