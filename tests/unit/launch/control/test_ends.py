"""How calls on the control channel end or go on: time that is up, networks that are cut, scripts that close files."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control import control_server, launcher_connection, rank_connection
from mpiparallel.launch.control.address import ControlAddress
from mpiparallel.launch.control.control_client import ControlClient
from mpiparallel.launch.control.control_server import ControlServer
from mpiparallel.launch.control.launcher_connection import LauncherConnection
from mpiparallel.launch.control.message import Inbox, encode_sealed
from mpiparallel.launch.control.rank_connection import RankConnection
from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.control.seal import Seal
from tests.conformance import patience
from tests.conformance.trainings.scripted_rank import ScriptedRank, called, connect, until


@pytest.fixture
def server(registry: RankRegistry) -> Iterator[ControlServer]:
    with ControlServer(registry, spans_hosts=False) as made:
        yield made


@pytest.mark.parametrize(("seconds", "is_kept"), [(5.0, True), (5.01, False)])
def test_a_stranger_has_five_seconds(
    seconds: float, is_kept: bool, server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(connect(server)):
        until(server, lambda: bool(server._strangers))
        moment = server._strangers[0].since + seconds
        monkeypatch.setattr(control_server, "time", SimpleNamespace(monotonic=lambda: moment))
        server.listen(0.0)
        assert bool(server._strangers) == is_kept


@pytest.mark.parametrize(("seconds", "is_kept"), [(60.0, True), (60.01, False)])
def test_who_knows_the_token_has_a_minute_to_answer(
    seconds: float, is_kept: bool, server: ControlServer, registry: RankRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedRank(server) as talker:
        talker.greet()
        assert not server._strangers
        moment = server._guests[0].since + seconds
        monkeypatch.setattr(control_server, "time", SimpleNamespace(monotonic=lambda: moment))
        server.listen(0.0)
        assert bool(server._guests) == is_kept
        assert talker.is_gone() != is_kept
    assert not registry.anyone_called


def test_who_speaks_before_it_has_answered_is_hung_up_on(server: ControlServer, registry: RankRegistry) -> None:
    with ScriptedRank(server) as talker:
        talker.greet()
        talker.say("completed")
        until(server, talker.is_gone)
    assert not registry.anyone_called
    assert not server._guests


class Broken:
    """The end of a connection that tells ``number`` when it is read."""

    def __init__(self, stream: socket.socket, number: int) -> None:
        self.fileno, self.close = stream.fileno, stream.close
        self._number = number

    def recv(self, count: int) -> bytes:
        raise OSError(self._number, "broken")


@pytest.mark.parametrize(
    ("number", "is_unreachable"),
    [
        (errno.ETIMEDOUT, True),
        (errno.EHOSTUNREACH, True),
        (errno.ENETUNREACH, True),
        (errno.ECONNRESET, False),
    ],
)
def test_a_rank_behind_a_network_that_is_cut_is_lost_as_unreachable(
    number: int, is_unreachable: bool, server: ControlServer, registry: RankRegistry
) -> None:
    with called(server):
        connection = server._ranks[1]
        connection.stream = Broken(connection.stream, number)  # type: ignore[assignment]
        server._read(connection)
    assert not server.connected
    assert registry.entries[1].has_died
    assert registry.entries[1].is_unreachable == is_unreachable


def test_a_rank_that_hears_nothing_any_more_is_lost_whatever_it_says_besides() -> None:
    registry = RankRegistry(1)
    with ControlServer(registry, spans_hosts=False) as server, called(server, 0) as talker:
        assert talker.seal
        talker.stream.shutdown(socket.SHUT_RD)
        talker.stream.sendall(encode_sealed(talker.seal, "ready") + b"no message\n")
        until(server, lambda: registry.entries[0].has_died)
        assert not server.connected
        server.listen(0.0)


@pytest.mark.parametrize("strangers", [0, 2])
def test_where_no_more_files_can_be_opened_the_oldest_stranger_gives_up_its_own(
    strangers: int, server: ControlServer
) -> None:
    class Refused:
        def accept(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    kept = [connect(server) for _ in range(strangers)]
    until(server, lambda: len(server._strangers) == strangers)
    before = list(server._strangers)
    server._accept(Refused())  # type: ignore[arg-type]
    assert server._strangers == before[1:]
    for stream in kept:
        stream.close()


def test_a_process_of_another_user_is_not_even_a_stranger(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_connection, "is_own", lambda stream: False)
    with ScriptedRank(server) as talker:
        until(server, talker.is_gone)
    assert not server._strangers


def test_strangers_are_told_nothing_and_a_message_that_is_not_taken_whole_ends_the_call() -> None:
    own, other = socket.socketpair()
    with own, other:
        connection = RankConnection.admitted(own)
        with pytest.raises(ConnectionError, match=r"^nothing is told to strangers$"):
            connection.tell("welcome")
        connection._seal = Seal(b"key")
        connection.tell("welcome")
        assert Seal(b"key").opened(other.recv(4096).removesuffix(b"\n")) == b'{"word": "welcome"}'
        with pytest.raises(ConnectionError, match=r"^the rank does not listen$"):
            connection.tell("welcome", filler="x" * 10_000_000)


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_connection_that_the_script_has_closed_is_seen_and_says_no_more(is_closed: bool) -> None:
    own, other = socket.socketpair()
    with own, other:
        connection = LauncherConnection(own, Inbox(100), Seal(b"key"))
        (own if is_closed else other).close()
        assert connection.is_taken == is_closed
        assert list(connection.heard()) == []


def test_a_file_that_the_script_has_opened_in_the_place_of_the_connection_is_left_alone(tmp_path: Path) -> None:
    own, other = socket.socketpair()
    with other:
        connection = LauncherConnection(own, Inbox(100), Seal(b"key"))
        number = own.fileno()
        file = os.open(tmp_path / "mine", os.O_CREAT | os.O_RDWR)
        os.dup2(file, number)
        assert connection.is_taken
        connection.forget()
        connection.close()
        assert os.write(number, b"mine") == 4
        os.close(number)
        os.close(file)


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_connection_gets_a_high_number_where_the_limit_of_files_allows(
    is_limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    if is_limited:
        monkeypatch.setattr(fcntl, "fcntl", refuse)
    own, other = socket.socketpair()
    with other, launcher_connection._closed_first(own) as moved:
        assert (moved is own) == is_limited
        assert (moved.fileno() >= 960) != is_limited
        assert (own.fileno() < 0) != is_limited
        other.send(b"heard")
        assert moved.recv(5) == b"heard"
        assert not os.get_inheritable(moved.fileno())


def test_a_launcher_that_says_something_else_than_welcome_is_none() -> None:
    def answer(listener: socket.socket) -> None:
        stream, _ = listener.accept()
        with stream:
            heard = stream.recv(65536)
            connection = RankConnection.admitted(stream)
            (message,) = connection.inbox.add(heard)
            connection.challenge(connection.identified(message, "token", 4), "token")
            connection.tell("all ready")
            stream.setblocking(True)
            while stream.recv(65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        where = ControlAddress(("127.0.0.1",), listener.getsockname()[1], "token")
        with pytest.raises(LaunchError, match=r"^the launcher did not welcome this rank$"):
            LauncherConnection.greeted(where, "127.0.0.1", {"rank": 1, "process": 1, "pid": 7, "host": "n1"})
        thread.join()


class Ends:
    """A rank of this process and whether its launcher is gone."""

    def __init__(self, where: ControlAddress) -> None:
        self.is_lost = threading.Event()
        about = {"rank": 1, "process": 2, "pid": 7, "starter": 6, "host": "n1"}
        self.client = ControlClient(where, about, self.is_lost.set, self._tell)

    def _tell(self, reason: str) -> None:
        pytest.fail(reason)

    def close_as_daemons_do(self) -> None:
        """Close the number of the connection, as what closes all descriptors that it finds."""
        connection: Any = self.client._connection
        os.close(connection._connection.fileno())


def test_what_is_said_to_a_launcher_that_is_gone_is_no_error(registry: RankRegistry) -> None:
    with ControlServer(registry, spans_hosts=False) as server:
        rank = Ends(server.address)
        until(server, lambda: server.connected == {1})
    patience.wait_until(rank.is_lost.is_set)
    rank.client.say("completed")
    assert registry.entries[1].last_word is None


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_rank_whose_script_has_closed_its_connection_calls_again_and_is_heard_and_hears(
    server: ControlServer, registry: RankRegistry
) -> None:
    told: list[int] = []
    former = signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
    rank = Ends(server.address)
    try:
        until(server, lambda: server.connected == {1})
        patience.wait_until(rank.client._settled.is_set)
        server.pass_signal(signal.SIGUSR1)
        until(server, lambda: len(told) == 1)
        rank.close_as_daemons_do()
        speaking = in_thread(lambda: rank.client.say("script ended"))
        until(server, lambda: registry.entries[1].script_has_ended)
        speaking.join()
        entry = registry.entries[1]
        assert (entry.has_called_again, entry.is_over, entry.process, entry.starter) == (True, False, 2, 6)
        # A signal that it has heard before is not said again; one after it is.
        server.pass_signal(signal.SIGUSR1)
        until(server, lambda: len(told) == 2)
        for _ in range(3):
            server.listen(0.01)
        assert (len(told), rank.is_lost.is_set()) == (2, False)
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_a_rank_that_can_reach_its_launcher_no_more_to_call_again_says_nothing(registry: RankRegistry) -> None:
    with ControlServer(registry, spans_hosts=False) as server:
        rank = Ends(server.address)
        until(server, lambda: server.connected == {1})
        patience.wait_until(rank.client._settled.is_set)
        rank.close_as_daemons_do()
    rank.client.say("completed")
    patience.wait_until(rank.is_lost.is_set)
    assert registry.entries[1].last_word is None
