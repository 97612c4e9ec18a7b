"""The line between launcher and ranks, both ends in this process or in a child of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpiparallel.launch.control import address
from mpiparallel.launch.control.address import ControlAddress
from mpiparallel.launch.control.control_client import ControlClient
from mpiparallel.launch.control.control_server import ControlServer
from mpiparallel.launch.control.rank_registry import RankRegistry
from tests.conformance import patience
from tests.conformance.trainings.scripted_rank import LIMIT, ScriptedRank, called, connect, until

ROOT = Path(__file__).parents[4]
FAILURE = {"rank": 0, "time": 1.0, "exception": "ValueError: odd", "traceback": "T", "exit_code": 3}


@pytest.fixture(params=["within the machine", "over TCP"])
def server(registry: RankRegistry, request: pytest.FixtureRequest) -> Iterator[ControlServer]:
    with ControlServer(registry, spans_hosts=request.param == "over TCP") as made:
        if request.param == "over TCP":
            made.address = ControlAddress(("127.0.0.1",), made.address.port, made.address.token)
        yield made


def test_rank_that_vanishes_without_a_word_has_died(server: ControlServer, registry: RankRegistry) -> None:
    talker = called(server, process=3)
    entry = registry.entries[1]
    assert (entry.host, entry.pid, entry.process, entry.is_over) == ("n1", 7, 3, False)
    talker.stream.close()
    until(server, lambda: entry.has_died)
    assert not server.connected


@pytest.mark.parametrize(
    ("word", "fields", "ends_well"),
    [("completed", {}, True), ("preempted", {}, True), ("failed", {"failure": FAILURE}, False)],
)
def test_last_word_tells_how_it_ended(
    server: ControlServer, registry: RankRegistry, word: str, fields: dict, ends_well: bool
) -> None:
    with called(server) as talker:
        talker.say(word, **fields)
    until(server, lambda: registry.entries[1].lost_at is not None)
    assert (registry.entries[1].ended_well, registry.entries[1].has_died) == (ends_well, False)
    if not ends_well:
        assert registry.entries[1].failure.exit_code == 3
        assert registry.entries[1].failure.rank == 1


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 3000 + b"\n",
        b"[" * 4000 + b"\n",
        b"x" * 100_000,
        b"{}\n",
        b'{"word": 3}\n',
        b'{"word": "hello"}\n',
        b'{"word": "hello", "proof": "\\ud800", "rank": 1, "process": 1, "nonce": "%s"}\n' % (b"0" * 32),
        b'{"word": "hello", "proof": "", "rank": 1, "process": 1, "nonce": "%s"}\n' % (b"\xff" * 32),
        b'{"word": "challenge", "nonce": "", "proof": ""}\n',
        b'{"word": "welcome"}\n',
        b"{}\n" * 5000,
        b'{"word": "completed"}\n',
    ],
)
def test_stranger_is_hung_up_on_and_changes_nothing(
    server: ControlServer, registry: RankRegistry, content: bytes
) -> None:
    with ScriptedRank(server) as talker:
        threading.Thread(target=_send, args=(talker.stream, content)).start()
        until(server, talker.is_gone)
    assert not registry.anyone_called
    with called(server):
        assert registry.anyone_called


@pytest.mark.parametrize("rank", [4, -1, "1", 1.0, True, None, 10**30])
def test_rank_that_is_not_of_the_job_is_hung_up_on(server: ControlServer, registry: RankRegistry, rank: object) -> None:
    with ScriptedRank(server, rank) as talker:
        talker.stream.sendall(talker.hello())
        until(server, talker.is_gone)
    assert not registry.anyone_called


def test_crowd_of_silent_strangers_keeps_no_rank_out(server: ControlServer) -> None:
    crowd = [connect(server) for _ in range(200)]
    with called(server, 2):
        assert server.connected == {2}
        assert len(server._strangers) <= 64
    for stream in crowd:
        stream.close()


@pytest.mark.parametrize("content", [b"x" * 300_000, b"no json\n", b"\xff\xfe\n"])
def test_rank_that_talks_nonsense_is_lost(server: ControlServer, registry: RankRegistry, content: bytes) -> None:
    with called(server) as talker:
        threading.Thread(target=_send, args=(talker.stream, content)).start()
        until(server, lambda: registry.entries[1].has_died)


def _send(stream: socket.socket, content: bytes) -> None:
    try:
        stream.sendall(content)
    except OSError:
        return


@pytest.mark.parametrize(
    "changed",
    [
        {"exit_code": 0},
        {"exit_code": 256},
        {"exit_code": True},
        {"time": "now"},
        {"time": float("nan")},
        {"time": 10**400},
        {"time": -1},
        {"traceback": None},
        {"exception": 3},
    ],
)
def test_failure_that_cannot_be_is_no_last_word(server: ControlServer, registry: RankRegistry, changed: dict) -> None:
    with called(server) as talker:
        talker.say("failed", failure={**FAILURE, **changed})
    until(server, lambda: registry.entries[1].has_died)


def test_rank_that_calls_again_is_not_lost_by_its_first_call(server: ControlServer, registry: RankRegistry) -> None:
    first = called(server)
    second = called(server)
    first.stream.close()
    for _ in range(20):
        server.listen(0.01)
    assert server.connected == {1}
    assert not registry.entries[1].is_over
    second.stream.close()


def test_job_of_one_host_is_heard_within_that_host_only_and_by_its_user(registry: RankRegistry) -> None:
    with ControlServer(registry, spans_hosts=False) as server:
        assert [listener.family for listener in server._listeners] == [socket.AF_UNIX]
        (host,) = server.address.hosts
        folder = Path(host.removeprefix("@"))
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_job_of_several_hosts_is_called_at_every_address_of_this_one(registry: RankRegistry) -> None:
    with ControlServer(registry, spans_hosts=True) as made:
        assert made.address.hosts[-1] == "127.0.0.1"
        for host in made.address.hosts:
            address.connect(host, made.address.port, LIMIT).close()
        assert ControlAddress.parse(str(made.address)) == made.address


class Ends:
    """What the two calls of a client are for."""

    def __init__(self) -> None:
        self.lost = threading.Event()
        self.told = threading.Event()
        self.reasons: list[str] = []

    def tell(self, reason: str) -> None:
        self.reasons.append(reason)
        self.told.set()


def client(where: ControlAddress, ends: Ends, rank: int = 1) -> ControlClient:
    about = {"rank": rank, "process": rank, "pid": os.getpid(), "host": "here"}
    return ControlClient(where, about, ends.lost.set, ends.tell)


def test_rank_sees_at_once_that_the_launcher_is_gone(registry: RankRegistry) -> None:
    ends = Ends()
    with ControlServer(registry, spans_hosts=False) as server:
        client(server.address, ends)
        until(server, lambda: 1 in server.connected)
        assert not ends.lost.is_set()
    patience.wait_until(ends.lost.is_set)


def test_rank_that_starts_when_the_launcher_of_its_machine_is_gone_already_sees_it(registry: RankRegistry) -> None:
    with ControlServer(registry, spans_hosts=False) as server:
        where = server.address
    ends = Ends()
    client(where, ends)
    patience.wait_until(ends.lost.is_set)
    assert not ends.told.is_set()


def test_signal_reaches_connected_ranks_and_those_that_call_later(server: ControlServer) -> None:
    told: list[int] = []
    former = signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
    try:
        client(server.address, Ends(), rank=0)
        until(server, lambda: 0 in server.connected)
        server.pass_signal(signal.SIGUSR1)
        until(server, lambda: len(told) == 1)
        client(server.address, Ends(), rank=1)
        until(server, lambda: len(told) == 2)
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_what_is_said_right_after_the_start_is_heard(server: ControlServer, registry: RankRegistry) -> None:
    speaker = client(server.address, Ends())
    threading.Thread(target=speaker.say, args=("completed",)).start()
    until(server, lambda: registry.entries[1].ended_well)


def test_rank_goes_on_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpiparallel.launch.control.control_client._TRYING_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
    ends = Ends()
    client(ControlAddress(("127.0.0.1",), port, "t"), ends).say("completed")
    patience.wait_until(ends.told.is_set)
    assert "127.0.0.1" in ends.reasons[0]
    assert not ends.lost.is_set()


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n", b'{"word": "hello"}\n', b"{"])
def test_what_does_not_welcome_is_not_the_launcher(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setattr("mpiparallel.launch.control.control_client._TRYING_SECONDS", 0.3)
    ends = Ends()
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=_answer, args=(other, answer), daemon=True).start()
        client(ControlAddress(("127.0.0.1",), other.getsockname()[1], "t"), ends).say("completed")
        patience.wait_until(ends.told.is_set)
        other.shutdown(socket.SHUT_RDWR)
    assert ends.reasons


def _answer(listener: socket.socket, content: bytes) -> None:
    try:
        while True:
            stream, _ = listener.accept()
            with stream:
                stream.sendall(content)
    except OSError:
        return


FORKING = """
import os, sys, time
from mpiparallel.launch.control import address
from mpiparallel.launch.control.address import ControlAddress
from mpiparallel.launch.control.control_client import ControlClient
client = ControlClient(ControlAddress.parse(sys.argv[1]), {"rank": 1, "process": 1, "pid": 1, "host": ""}, int, print)
client._settled.wait()
if not os.fork():
    time.sleep(30)
    os._exit(0)
os._exit(0)
"""


def test_child_of_a_fork_does_not_hide_the_death_of_its_rank(server: ControlServer, registry: RankRegistry) -> None:
    words = [sys.executable, "-W", "ignore", "-c", FORKING, str(server.address)]
    with subprocess.Popen(words, cwd=ROOT, start_new_session=True) as rank:
        try:
            until(server, lambda: registry.entries[1].has_died)
        finally:
            os.killpg(rank.pid, signal.SIGKILL)


def test_all_are_told_when_the_last_one_is_ready(server: ControlServer, registry: RankRegistry) -> None:
    told: list[int] = []

    def wait(rank: int) -> None:
        client = ControlClient(
            server.address, {"rank": rank, "process": rank, "pid": 7, "host": "n1"}, lambda: None, print
        )
        client.wait_until_all_are_ready()
        told.append(rank)

    threads = [threading.Thread(target=wait, args=(rank,)) for rank in range(4)]
    for thread in threads[:3]:
        thread.start()
    until(server, lambda: sum(entry.is_ready for entry in registry) == 3)
    assert not told
    threads[3].start()
    until(server, lambda: len(told) == 4)
    for thread in threads:
        thread.join()
