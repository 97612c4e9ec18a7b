"""Who has called the launcher: what a stranger must show, and what is kept of what a rank says of itself."""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control import rank_connection
from mpiparallel.launch.control.handshake import Handshake
from mpiparallel.launch.control.message import ANSWER, CHALLENGE, HELLO, LAUNCHER, LONGEST, LONGEST_OF_STRANGER
from mpiparallel.launch.control.rank_connection import RankConnection


@pytest.fixture
def ends() -> Iterator[tuple[RankConnection, socket.socket]]:
    """The launcher's end of a connection, and the other."""
    own, other = socket.socketpair()
    with own, other:
        yield RankConnection.admitted(own), other


Ends = tuple[RankConnection, socket.socket]


def hello(called: Handshake, **changed: Any) -> dict[str, Any]:
    said = {"word": HELLO, "rank": called.rank, "process": called.process, "nonce": called.nonce}
    return {**said, "proof": called.proof("token", HELLO), **changed}


def test_a_stranger_is_known_once_it_shows_that_it_knows_the_token(ends: Ends) -> None:
    connection, other = ends
    called = Handshake.of(1, 2, connection.place)
    assert connection.identified(hello(called), "token", 4) == called
    assert (connection.rank, connection.inbox.longest) == (None, LONGEST_OF_STRANGER)
    connection.challenge(called, "token")
    said = json.loads(other.recv(1000))
    assert said["word"] == CHALLENGE
    assert called.answered(said["nonce"]).is_proven("token", CHALLENGE, said["proof"])
    assert connection.handshake == called.answered(said["nonce"])
    connection.tell("welcome", number=3)
    line = other.recv(1000)
    assert json.loads(connection.handshake.seal("token", LAUNCHER).opened(line[:-1])) == {
        "word": "welcome",
        "number": 3,
    }


@pytest.mark.parametrize(
    "changed", [{"word": ANSWER}, {"proof": "x"}, {"proof": None}, {"rank": 3}, {"nonce": "0" * 32}], ids=str
)
def test_a_stranger_that_shows_nothing_is_refused(ends: Ends, changed: dict[str, Any]) -> None:
    connection, _ = ends
    with pytest.raises(LaunchError, match=r"^a stranger called$"):
        connection.identified(hello(Handshake.of(1, 2, connection.place), **changed), "token", 4)


def test_nothing_is_told_to_strangers(ends: Ends) -> None:
    with pytest.raises(ConnectionError, match="nothing is told to strangers"):
        ends[0].tell("welcome")


def test_a_process_of_another_user_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_connection, "is_own", lambda stream: False)
    own, other = socket.socketpair()
    with own, other, pytest.raises(PermissionError, match="a process of another user called"):
        RankConnection.admitted(own)


def test_who_does_not_listen_is_told_no_more(ends: Ends) -> None:
    connection, _ = ends
    connection.challenge(Handshake.of(1, 2, connection.place), "token")
    with pytest.raises((BlockingIOError, ConnectionError)):
        deque(connection.tell("word", text="x" * 100_000) for _ in range(100))


ANSWERS: list[tuple[dict[str, Any], tuple[str, int | None, int | None]]] = [
    ({"host": "node-1.x_y", "pid": 7, "starter": 6}, ("node-1.x_y", 7, 6)),
    ({"host": "n" * 255, "pid": 1, "starter": None}, ("n" * 255, 1, None)),
    ({"host": "n" * 256, "pid": 1 << 22, "starter": (1 << 22) + 1}, ("", 1 << 22, None)),
    ({"host": "a b", "pid": 0, "starter": -1}, ("", None, None)),
    ({"host": "", "pid": True, "starter": "6"}, ("", None, None)),
    ({"host": 3}, ("", None, None)),
    ({}, ("", None, None)),
]


@pytest.mark.parametrize(("told", "kept"), ANSWERS, ids=str)
def test_what_cannot_be_of_what_a_rank_tells_of_itself_is_not_kept(
    ends: Ends, told: dict[str, Any], kept: tuple[str, int | None, int | None]
) -> None:
    connection, _ = ends
    connection.be_rank(Handshake.of(1, 2, connection.place), {"word": ANSWER, **told})
    assert (connection.host, connection.pid, connection.starter) == kept
    assert (connection.rank, connection.inbox.longest) == (1, LONGEST)


def test_a_rank_answers_before_it_says_anything_else(ends: Ends) -> None:
    connection, _ = ends
    with pytest.raises(LaunchError, match=r"^a rank spoke before it had answered$"):
        connection.be_rank(Handshake.of(1, 2, connection.place), {"word": HELLO})
    assert connection.rank is None
