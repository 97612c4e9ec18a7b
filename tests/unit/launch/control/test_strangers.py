"""Who is not of the job: one that listens where a rank calls, one that calls in its place, one that stands between."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from mpiparallel.launch.control.address import ControlAddress
from mpiparallel.launch.control.control_client import ControlClient
from mpiparallel.launch.control.control_server import ControlServer
from mpiparallel.launch.control.message import encode, encode_sealed
from mpiparallel.launch.control.rank_registry import RankRegistry
from tests.conformance.trainings.scripted_rank import LIMIT, ScriptedRank, called, connect, until

TOKEN = "5ec4e7" * 10
NONCE = "0123456789abcdef" * 2


@pytest.fixture
def server(registry: RankRegistry) -> Iterator[ControlServer]:
    with ControlServer(registry, spans_hosts=True) as made:
        made.address = ControlAddress(("127.0.0.1",), made.address.port, made.address.token)
        yield made


class Stranger:
    """Listens where a rank calls, keeps what it hears, and answers by ``answer``, which gets that."""

    def __init__(self, answer: Callable[[socket.socket, bytes], None]) -> None:
        self.heard = b""
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(stream,), daemon=True).start()

    def _talk(self, stream: socket.socket) -> None:
        with stream, suppress(OSError):
            content = stream.recv(65536)
            self.heard += content
            self._answer(stream, content)
            while more := stream.recv(65536):
                self.heard += more


class Rank:
    """A rank in this process that calls ``port``, and what becomes of its call."""

    def __init__(self, port: int, token: str, host: str = "127.0.0.1") -> None:
        self.is_lost = threading.Event()
        self.is_told = threading.Event()
        self.reasons: list[str] = []
        about = {"rank": 1, "process": 1, "pid": 7, "host": "n1"}
        self.client = ControlClient(ControlAddress((host,), port, token), about, self.is_lost.set, self._tell)

    def _tell(self, reason: str) -> None:
        self.reasons.append(reason)
        self.is_told.set()


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The signals that this process was sent; a rank does not try long."""
    monkeypatch.setattr("mpiparallel.launch.control.control_client._TRYING_SECONDS", 0.3)
    monkeypatch.setattr("mpiparallel.launch.control.launcher_connection._CONNECT_SECONDS", 0.3)
    told: list[int] = []
    former = {number: signal.signal(number, lambda got, frame: told.append(got)) for number in (10, 12, 14)}
    yield told
    for number, handler in former.items():
        signal.signal(number, handler)


def says(content: bytes) -> Callable[[socket.socket, bytes], None]:
    return lambda stream, heard: stream.sendall(content)


def says_slowly(stream: socket.socket, heard: bytes) -> None:
    for _ in range(2000):
        stream.sendall(b" ")
        time.sleep(0.05)


WELCOME = encode("welcome") + encode("signal", number=10) + encode("all ready")
MARK = b"0" * 64 + b" "
LISTENERS = {
    "another program": says(b"SSH-2.0-OpenSSH\r\n"),
    "a welcome without proof": says(WELCOME),
    "a challenge without proof": says(encode("challenge", nonce=NONCE) + WELCOME),
    "a challenge with a false proof": says(encode("challenge", nonce=NONCE, proof="0" * 64) + WELCOME),
    "a challenge that is no text": says(encode("challenge", nonce=5, proof=[1]) + WELCOME),
    "a nonce that is none": says(encode("challenge", nonce="\ud800" * 32, proof="\ud800") + WELCOME),
    "a seal that is none": says(encode("challenge", nonce=NONCE, proof="0" * 64) + MARK + WELCOME),
    "what it has heard": lambda stream, heard: stream.sendall(heard),
    "the proof that it has heard": lambda stream, heard: stream.sendall(
        encode("challenge", nonce=NONCE, proof=json.loads(heard)["proof"]) + WELCOME
    ),
    "bytes without end": says(b"x" * 3_000_000),
    "half a message": says(b"{"),
    "nothing": says(b""),
    "one byte at a time": says_slowly,
    "nothing, and hangs up": lambda stream, heard: stream.close(),
}


@pytest.mark.parametrize("listener", LISTENERS)
def test_what_listens_instead_of_the_launcher_learns_no_token_and_is_not_obeyed(
    listener: str, signals: list[int]
) -> None:
    with closing(Stranger(LISTENERS[listener])) as stranger:
        rank = Rank(stranger.port, TOKEN)
        rank.client.say("completed")
        assert rank.is_told.wait(LIMIT)
    assert stranger.heard
    assert TOKEN.encode()[:16] not in stranger.heard
    assert b"completed" not in stranger.heard
    assert not signals
    assert not rank.is_lost.is_set()
    assert not rank.client._all_are_ready.is_set()


def test_relay_between_a_rank_and_its_launcher_is_noticed(
    server: ControlServer, registry: RankRegistry, signals: list[int]
) -> None:
    def pass_on(stream: socket.socket, heard: bytes) -> None:
        with socket.create_connection(("127.0.0.1", server.address.port)) as beyond:
            beyond.sendall(heard)
            while content := beyond.recv(65536):
                stream.sendall(content)
                beyond.sendall(stream.recv(65536))

    with closing(Stranger(pass_on)) as relay:
        rank = Rank(relay.port, server.address.token)
        until(server, rank.is_told.is_set)
    assert not registry.anyone_called
    assert server.address.token.encode()[:16] not in relay.heard


def test_hello_of_a_rank_is_good_for_no_other_rank_process_or_second_time(
    server: ControlServer, registry: RankRegistry
) -> None:
    with called(server) as honest:
        nonce = honest.handshake.nonce
        first = honest.handshake.__class__(1, 1, honest.handshake.place, nonce)
        for changed in ({}, {"rank": 2}, {"process": 2}, {"nonce": NONCE}, {"proof": "0" * 64}):
            with ScriptedRank(server) as thief:
                thief.handshake = first
                thief.stream.sendall(thief.hello(**{"rank": 1, **changed}))
                until(server, thief.is_gone)
        assert server.connected == {1}
        assert not registry.entries[1].is_over
    assert [entry.rank for entry in registry if entry.called_at is not None] == [1]


def test_who_has_heard_a_whole_handshake_cannot_say_it_again(server: ControlServer, registry: RankRegistry) -> None:
    with called(server) as honest, ScriptedRank(server, 2) as other:
        other.greet()
        assert other.seal
        # Its own challenge is another one, so the answer of the first is none.
        other.stream.sendall(encode_sealed(honest.handshake.seal(server.address.token, "rank"), "answer"))
        until(server, other.is_gone)
    assert registry.entries[2].called_at is None


@pytest.mark.parametrize("harm", ["changed", "repeated", "left out", "without its seal", "of the other side"])
def test_message_of_a_rank_that_is_not_as_it_was_said_ends_its_call(
    server: ControlServer, registry: RankRegistry, harm: str
) -> None:
    with called(server) as talker:
        assert talker.seal
        word = encode_sealed(talker.seal, "ready")
        spoilt = {
            "changed": word.replace(b"ready", b"error"),
            "repeated": word + word,
            "left out": encode_sealed(talker.seal, "completed"),
            "without its seal": encode("completed"),
            "of the other side": encode_sealed(talker.launcher, "completed"),
        }[harm]
        talker.stream.sendall(spoilt)
        until(server, lambda: registry.entries[1].has_died)
    assert registry.entries[1].last_word is None


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGKILL, 0, -1, 1000])
def test_rank_takes_no_signal_but_those_of_preemption(server: ControlServer, signals: list[int], number: int) -> None:
    rank = Rank(server.address.port, server.address.token)
    until(server, lambda: server.connected == {1})
    server.pass_signal(number)
    server.pass_signal(signal.SIGUSR2)
    until(server, lambda: bool(signals))
    assert signals == [signal.SIGUSR2]
    assert not rank.is_lost.is_set()


@pytest.mark.parametrize(
    ("fields", "host", "pid"),
    [
        ({"host": "n1\x1b[2J", "pid": 5}, "", 5),
        ({"host": ["n1"], "pid": True}, "", None),
        ({"host": "x" * 300, "pid": -1}, "", None),
        ({"host": "a.b-c_d", "pid": 10**30}, "a.b-c_d", None),
    ],
)
def test_host_and_process_that_cannot_be_are_not_noted(
    server: ControlServer, registry: RankRegistry, fields: dict[str, object], host: str, pid: int | None
) -> None:
    with called(server, **fields):
        assert (registry.entries[1].host, registry.entries[1].pid) == (host, pid)


def test_of_65_strangers_the_oldest_is_hung_up_on(registry: RankRegistry) -> None:
    def is_gone(stream: socket.socket) -> bool:
        stream.setblocking(False)
        try:
            return not stream.recv(1)
        except BlockingIOError:
            return False

    with ControlServer(registry, spans_hosts=False) as server:
        crowd = [connect(server) for _ in range(65)]
        until(server, lambda: is_gone(crowd[0]))
        server.listen(0.0)
        assert [is_gone(one) for one in crowd] == [True, *[False] * 64]
        for one in crowd:
            one.close()


def test_signals_are_told_in_the_order_in_which_they_came(server: ControlServer) -> None:
    with called(server) as talker:
        for number in (signal.SIGUSR2, signal.SIGUSR1):
            server.pass_signal(number)
        heard = b""
        while heard.count(b"\n") < 2:
            heard += talker.heard()
        told = [json.loads(talker.launcher.opened(line)) for line in heard.splitlines()]
    assert [one["number"] for one in told] == [signal.SIGUSR2, signal.SIGUSR1]


def test_crowd_that_keeps_coming_keeps_no_rank_out(server: ControlServer) -> None:
    over = threading.Event()

    def crowd() -> None:
        kept: list[socket.socket] = []
        while not over.is_set():
            with suppress(OSError):
                kept.append(socket.create_connection(("127.0.0.1", server.address.port), LIMIT))
            if len(kept) > 200:
                kept.pop(0).close()
        for one in kept:
            one.close()

    threads = [threading.Thread(target=crowd) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        ranks = [called(server, number) for number in range(4)]
        assert server.connected == {0, 1, 2, 3}
        for rank in ranks:
            rank.stream.close()
    finally:
        over.set()
        for thread in threads:
            thread.join()
